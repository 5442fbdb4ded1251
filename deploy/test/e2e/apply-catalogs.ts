import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { ServiceError } from "#shared/process/errors.ts";
import { query } from "#shared/testing/postgres.ts";
import type { World } from "./world.ts";

/** Somebody who applies one catalog after the other, each asked for until there is an answer. */
export type Applier = {
  /** Ends with the version under way, and fails unless each is there once, whole, with its prices and no others. */
  stop: () => Promise<void>;
};

const retryMs = 20;
const contentOf = (version: bigint): string => `# ${version}\n`;

/** Applies catalogs as fast as they are answered. Relays of this world follow the file. */
export function startApplying({ authQuota, stack }: World): Applier {
  let version = 0n;
  let isStopping = false;
  const applyNext = async (): Promise<void> => {
    const asked = {
      content: contentOf(version + 1n),
      baseVersion: version,
      author: "ann@example.com",
      note: "",
      prices: [{ model: "m", priceVersion: String(version + 1n), prices: "{}" }],
    };
    for (;;) {
      try {
        assert.equal((await authQuota.applyCatalog(asked)).version, version + 1n);
        version += 1n;
        return;
      } catch (error) {
        if (!(error instanceof ServiceError) || !["unavailable", "internal"].includes(error.code)) throw error;
        await pause(retryMs);
      }
    }
  };
  const applying = (async () => {
    while (!isStopping) await applyNext();
  })();
  // It is told of when it is stopped.
  applying.catch(() => undefined);
  return {
    stop: async () => {
      isStopping = true;
      await applying;
      const { rows } = await query(
        stack.stores.urls.postgres,
        `SELECT version::int, hash, (SELECT count(*)::int FROM auth_quota.catalog_price
           WHERE price_version = version::text) AS prices FROM auth_quota.applied_catalog ORDER BY version`,
      );
      const wanted = Array.from({ length: Number(version) }, (_, index) => BigInt(index + 1));
      assert.deepEqual(
        rows,
        wanted.map((one) => ({ version: Number(one), hash: hash("sha256", contentOf(one)), prices: 1 })),
      );
      assert.ok(version > 0n, "one was applied");
    },
  };
}
