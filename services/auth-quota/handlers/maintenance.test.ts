import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import { createMaintenance } from "./maintenance.ts";
import type { MaintenanceRow } from "../store/maintenance.ts";
import type { Database } from "../store/postgres.ts";
import { startAppWorld, type AppEnvironment } from "../testing/app-world.ts";
import type { RelayLine } from "../testing/relay-line.ts";

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());

/** What a relay without calls hears with its next heartbeat. */
async function toldOn(line: RelayLine): Promise<boolean | undefined> {
  await line.send([]);
  return line.isMaintenance();
}

test("the switch is off and has never been turned; setting what it is already moves nothing", async () => {
  const { admin } = world.first;
  const { isMaintenance, changedAt } = await admin.getMaintenance({});
  assert.deepEqual([isMaintenance, changedAt], [false, undefined]);
  assert.equal((await admin.setMaintenance({ isMaintenance: false })).changedAt, undefined);
  const closed = await admin.setMaintenance({ isMaintenance: true });
  assert.ok(closed.changedAt);
  assert.deepEqual((await admin.setMaintenance({ isMaintenance: true })).changedAt, closed.changedAt);
  const told = await admin.getMaintenance({});
  assert.deepEqual([told.isMaintenance, told.changedAt], [true, closed.changedAt]);
  const opened = await admin.setMaintenance({ isMaintenance: false });
  assert.notDeepEqual(opened.changedAt, closed.changedAt);
});

test("relays hear of it with the next answer of the replica that was told, and of all others soon", async () => {
  await using second = await world.startReplica();
  using near = world.first.openLine("relay_near");
  using far = second.openLine("relay_far");
  await until("both have read it", async () => (await toldOn(near)) === false && (await toldOn(far)) === false);
  for (const isMaintenance of [true, false]) {
    await world.first.admin.setMaintenance({ isMaintenance });
    assert.equal(await toldOn(near), isMaintenance);
    await until("the other replica has read it", async () => (await toldOn(far)) === isMaintenance);
  }
});

test("without PostgreSQL what was last read stays in force; a replica that has read nothing tells nothing", async () => {
  await world.first.admin.setMaintenance({ isMaintenance: true });
  using line = world.first.openLine("relay_kept");
  await world.stores.postgres.kill();
  const failed = /"isMaintenance":true.*failed to read the maintenance switch/;
  await until("it cannot be read", () => failed.test(world.logText()));
  assert.equal(await toldOn(line), true);
  await using fresh = await world.startReplica();
  using freshLine = fresh.openLine("relay_fresh");
  assert.equal(await toldOn(freshLine), undefined);
  await assert.rejects(fresh.admin.setMaintenance({ isMaintenance: false }), { code: "unavailable" });
  await world.stores.postgres.restart();
  await until("it is read", async () => (await toldOn(freshLine)) === true);
  assert.equal(await toldOn(line), true);
});

test("a reading that was overtaken by a later one changes nothing", async () => {
  const answers: ((row: MaintenanceRow) => void)[] = [];
  const query = () => new Promise<MaintenanceRow[]>((resolve) => answers.push((row) => resolve([row])));
  const maintenance = createMaintenance({ query } as unknown as Database, createLog("test", "silent"));
  const looks = [maintenance.look(), maintenance.look()];
  answers[1]?.({ isMaintenance: true, changedAt: new Date() });
  await looks[1];
  answers[0]?.({ isMaintenance: false, changedAt: null });
  await Promise.all(looks);
  assert.equal(maintenance.current(), true);
});
