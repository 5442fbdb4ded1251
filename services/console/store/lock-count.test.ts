import assert from "node:assert/strict";
import { hash, randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { createPool, inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";
import { sharePostgres } from "#shared/testing/share.ts";
import { createConsoleDatabase } from "../testing/console.ts";
import { insertWebhook } from "./deliveries.ts";
import { insertSession } from "./sessions.ts";
import { insertTopUp } from "./top-ups.ts";

const resources = new AsyncDisposableStack();
const personId = randomUUID();
let pool: Pool;

before(async () => {
  const database = resources.use(await createConsoleDatabase(resources.use(await sharePostgres())));
  await database.sql(`INSERT INTO console.person (person_id, email, password_hash, is_operator)
    VALUES ('${personId}', 'a@b.example', '', false)`);
  pool = resources.use(createPool(database.url, "test", () => undefined));
});
after(() => resources.disposeAsync());

/** Makes so many at once, each in a transaction that stays open for a while; gives what became of each. */
const atOnce = <Made>(count: number, make: (db: Queryable) => Promise<Made>): Promise<Made[]> =>
  Promise.all(
    Array.from({ length: count }, () =>
      inTransaction(pool, async (db) => {
        const made = await make(db);
        await db.query("SELECT pg_sleep(0.01)");
        return made;
      }),
    ),
  );

test("of webhooks that are made at once, no more are added than an account may have", async () => {
  const webhook = (accountId: string) => ({
    webhookId: randomUUID(),
    accountId,
    url: "https://example.org/",
    sealedSecret: Buffer.from("x"),
    createdBy: personId,
  });
  const made = await atOnce(20, (db) => insertWebhook(db, webhook("acme"), 5));
  assert.equal(made.filter(Boolean).length, 5);
  assert.ok(await inTransaction(pool, (db) => insertWebhook(db, webhook("other"), 5)), "each account has its own");
});

test("of payments that are begun at once, no more than twenty", async () => {
  const topUp = { accountId: "acme", personId, provider: "stripe", amountNanos: 5_000_000_000n, savesCard: false };
  const made = await atOnce(30, (db) => insertTopUp(db, topUp));
  assert.equal(made.filter((id) => id !== undefined).length, 20);
});

test("of sessions that are opened at once, a person has at most fifty", async () => {
  const session = () => ({
    tokenHash: hash("sha256", randomUUID(), "buffer"),
    personId,
    isComplete: true,
    address: "",
    browser: "",
  });
  await atOnce(70, (db) => insertSession(db, session()));
  const { rows } = await pool.query("SELECT count(*)::int AS sessions FROM console.session");
  assert.deepEqual(rows, [{ sessions: 50 }]);
});
