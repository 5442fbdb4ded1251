import assert from "node:assert/strict";
import { test } from "node:test";
import { createPool } from "#shared/stores/postgres.ts";
import { sharePostgres } from "#shared/testing/share.ts";
import { createConsoleDatabase } from "../testing/console.ts";
import { insertDeliveries, takeDue } from "./deliveries.ts";

test("an account whose messages wait by the hundred does not keep those of another waiting", async () => {
  await using postgres = await sharePostgres();
  await using database = await createConsoleDatabase(postgres);
  await using pool = createPool(database.url, "test", () => undefined);
  const tell = async (accountId: string, count: number): Promise<void> => {
    const recipients = Array.from({ length: count }, (_, at) => ({ recipient: `${accountId}-${at}`, webhookId: null }));
    await insertDeliveries(pool, { accountId, eventType: "balance.low", body: "{}" }, recipients);
  };
  await tell("hostile", 100);
  await tell("honest", 1);
  const take = async (): Promise<string[]> => (await takeDue(pool, 20, 4)).map(({ accountId }) => accountId).toSorted();
  assert.deepEqual(await take(), ["honest", "hostile", "hostile", "hostile", "hostile"]);
  assert.deepEqual(await take(), ["hostile", "hostile", "hostile", "hostile"]);
  // Of two replicas none takes what the other has.
  const both = (await Promise.all([takeDue(pool, 20, 4), takeDue(pool, 20, 4)])).flat();
  assert.equal(new Set(both.map(({ deliveryId }) => deliveryId)).size, both.length);
});
