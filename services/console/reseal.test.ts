import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { sealedFor as sealedForWebhook } from "./alerts/deliver.ts";
import { createSecretBox, readSecretsKeys, type SecretBox } from "./credentials/secrets.ts";
import { sealedFor as sealedForPlayground } from "./playground-key.ts";
import { resealAll } from "./reseal.ts";
import { startWorld, type World } from "./testing/console.ts";
import { enrol, setUp, type TestPerson } from "./testing/people.ts";

const webhooks = 250;

/** Webhooks of an account, more than are read at once, and a key of the playground. */
async function keepSealed({ database }: World, { personId }: TestPerson, box: SecretBox): Promise<string[]> {
  const ids = Array.from({ length: webhooks }, () => randomUUID());
  const hex = (about: string): string => `'\\x${box.seal(Buffer.from("secret"), about).toString("hex")}'`;
  const rows = ids.map((id) => {
    const [secret, previous] = [hex(sealedForWebhook(id)), hex(sealedForWebhook(id))];
    return `('${id}', 'acme', 'https://a.example', ${secret}, ${previous}, now() + interval '1 day', '${personId}')`;
  });
  await database.sql(`
    INSERT INTO console.webhook
      (webhook_id, account_id, url, sealed_secret, previous_secret, previous_until, created_by)
    VALUES ${rows.join(", ")};
    INSERT INTO console.playground_key (account_id, person_id, key_id, sealed_secret, expires_at)
    VALUES ('acme', '${personId}', 'key_1', ${hex(sealedForPlayground("key_1"))}, now() + interval '1 day');
    UPDATE console.person SET totp_pending = ${hex(personId)} WHERE person_id = '${personId}'`);
  return ids;
}

async function readSealed({ database }: World): Promise<Map<string, Buffer>> {
  const rows = await database.sql(`
    SELECT 'totp ' || person_id AS name, totp_secret AS sealed FROM console.person
    UNION ALL SELECT 'pending ' || person_id, totp_pending FROM console.person
    UNION ALL SELECT 'webhook ' || webhook_id, sealed_secret FROM console.webhook
    UNION ALL SELECT 'previous ' || webhook_id, previous_secret FROM console.webhook
    UNION ALL SELECT 'playground ' || key_id, sealed_secret FROM console.playground_key`);
  return new Map(rows.map(({ name, sealed }) => [String(name), sealed as Buffer]));
}

test("the key that seals secrets is changed without losing any of them", async () => {
  await using world = await startWorld();
  world.neighbours.addAccount("acme");
  const person = await setUp(world);
  const { code } = await enrol(world, person.browser);
  const file = world.config.SECRETS_KEY_FILE;
  const [former] = readSecretsKeys(readFileSync(file, "utf8"));
  const ids = await keepSealed(world, person, createSecretBox([former]));
  const damaged = `previous ${ids[7]}`;
  await world.database.sql(`UPDATE console.webhook SET previous_secret = 'x' WHERE webhook_id = '${ids[7]}'`);

  const first = randomBytes(32);
  await using pool = createPool(world.database.url, "test", () => undefined);
  const lines: Record<string, unknown>[] = [];
  const log = createLog("console", "info", { write: (line: string) => void lines.push(JSON.parse(line)) });
  const deps = { pool, box: createSecretBox([first, former]), log };
  await resealAll(deps);
  const firstAlone = createSecretBox([first]);
  const kept = await readSealed(world);
  for (const [name, sealed] of kept) {
    const [column = "", id = ""] = name.split(/ (.*)/s);
    const about = { webhook: sealedForWebhook, previous: sealedForWebhook, playground: sealedForPlayground }[column];
    if (name === damaged) assert.equal(sealed.toString(), "x", "what no key opens stays");
    else assert.ok(firstAlone.open(sealed, about?.(id) ?? id), name);
  }
  assert.equal(kept.size, 2 + 2 * webhooks + 1);
  await resealAll(deps);
  assert.deepEqual(await readSealed(world), kept, "what the first key opens stays as it is");
  assert.deepEqual(
    lines.map(({ level, resealed, unreadable }) => [level, resealed ?? unreadable]),
    [
      ["error", 1],
      ["info", 2 + 2 * webhooks],
      ["error", 1],
      ["info", 0],
    ],
  );

  writeFileSync(file, first.toString("base64"));
  const app = await world.startReplica();
  const browser = world.browser(app);
  await browser.fill("/sign-in", { email: person.email, password: "correct horse battery staple" });
  assert.equal((await browser.fill("/sign-in/second-factor", { code: code() })).status, 303);
});
