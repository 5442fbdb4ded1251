import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { createPool } from "#shared/stores/postgres.ts";
import { findTool } from "#shared/testing/binaries.ts";
import { startPgbouncer } from "#shared/testing/pgbouncer.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { startLedger } from "../testing/ledger.ts";
import { alone } from "./reconcile-report.ts";

const noPooler = findTool("pgbouncer") === undefined && "there is no pgbouncer: `npm test` installs it, or says how";

describe("who makes the daily report", () => {
  let ledger: Awaited<ReturnType<typeof startLedger>>;
  before(async () => {
    ledger = await startLedger();
  });
  after(() => ledger[Symbol.asyncDispose]());

  /** Does all of it as a login of the service on connections of its own to this URL. */
  async function tryAt(url: string): Promise<void> {
    await using pool = createPool(url, "billing", () => undefined);
    const locks = `SELECT FROM pg_locks JOIN pg_database ON oid = database
      WHERE locktype = 'advisory' AND datname = current_database()`;
    const isLocked = async (): Promise<boolean> => (await query(ledger.ownerUrl, locks)).rowCount !== 0;
    const done: string[] = [];
    const other = await pool.connect();
    try {
      await alone(pool, "test", async () => {
        assert.equal(await isLocked(), true);
        // A pooler gives it the connection that it gave the last one, and it keeps that.
        await other.query("BEGIN");
        await other.query("SELECT 1");
        await alone(pool, "test", () => Promise.resolve(void done.push("the second at the same time")));
        done.push("the first");
      });
      assert.deepEqual(done, ["the first"]);
      assert.equal(await isLocked(), false);
    } finally {
      other.release(true);
    }
    await assert.rejects(
      alone(pool, "test", () => Promise.reject(new Error("the report cannot be made"))),
      /cannot be made/,
    );
    await until("the lock has ended with its connection", async () => !(await isLocked()));
    await alone(pool, "test", () => Promise.resolve(void done.push("the next")));
    assert.deepEqual(done, ["the first", "the next"]);
  }

  test("is one at a time, and leaves no lock", () => tryAt(ledger.url));

  test("is one at a time behind pgbouncer, too, and leaves no lock there", { skip: noPooler }, async () => {
    await using pooler = await startPgbouncer(ledger.ownerUrl);
    const { port } = new URL(pooler.url);
    await tryAt(Object.assign(new URL(ledger.url), { port }).href);
  });
});
