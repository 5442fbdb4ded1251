import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";
import { readyState } from "../../testing/relay-neighbour.ts";

const path = "/operator/maintenance";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
});
after(() => world[Symbol.asyncDispose]());

async function open(where: string) {
  const seen = await operator.browser.get(where);
  checkPage(seen, where);
  return seen.text;
}

const switched = () => world.neighbours.maintenance.isMaintenance;
const trail = async () =>
  (
    await world.database.sql(
      `SELECT action, outcome, before, after FROM console.audit_entry
       WHERE action LIKE 'maintenance.%' ORDER BY audit_id`,
    )
  ).map(({ action, outcome, before: earlier, after: later }) => [action, outcome, earlier, later]);

it("the API is closed and opened after a question, and both are in the audit log", async () => {
  assert.match(await open(path), /the API is open.*it was never switched/);
  assert.match(await open(`${path}/begin`), /Every relay refuses every call with 503/);
  assert.equal(switched(), false);
  const done = await operator.browser.submit(`${path}/begin`, {});
  assert.match(done.text, /The API is being closed/);
  assert.equal(switched(), true);
  for (const page of [path, "/operator/installation", "/operator/installation/state"]) {
    assert.match((await operator.browser.get(page)).text, /The API is closed for maintenance since<time/, page);
  }
  assert.match(await open(`${path}/end`), /Calls are taken again/);
  await operator.browser.submit(`${path}/end`, {});
  assert.equal(switched(), false);
  assert.doesNotMatch(await open(path), /closed for maintenance/);
  const [off, on] = [{ isMaintenance: false }, { isMaintenance: true }];
  assert.deepEqual(await trail(), [
    ["maintenance.begin", "asked", off, on],
    ["maintenance.begin", "done", off, on],
    ["maintenance.end", "asked", on, off],
    ["maintenance.end", "done", on, off],
  ]);
});

it("a catalog that closes the API on its own is told beside the switch", async () => {
  world.neighbours.relays.state = readyState();
  Object.assign(world.neighbours.relays.state.catalog ?? {}, { isMaintenance: true });
  const text = await open(path);
  assert.match(text, /the API is open/);
  assert.match(text, /closes the API on 1 of 1 relays/);
  assert.match(text, /only a change of the catalog opens it/);
  world.neighbours.relays.state = readyState();
});

it("when auth-quota does not answer, nothing is switched and 503 says so", async () => {
  await operator.browser.get(`${path}/begin`);
  world.neighbours.failure = new ServiceError("unavailable", "down at 10.0.0.1");
  const seen = [await operator.browser.post(`${path}/begin`), await operator.browser.get(path)];
  world.neighbours.failure = undefined;
  for (const { status, text } of seen) {
    assert.equal(status, 503);
    assert.match(text, /A part of the system does not answer/);
    assert.doesNotMatch(text, /10\.0\.0\.1/);
  }
  assert.equal(switched(), false);
});

it("an answer that is lost leaves the line `asked` alone: it is not known whether it was done", async () => {
  const before = (await trail()).length;
  await operator.browser.get(`${path}/begin`);
  world.neighbours.breakAfter = "setMaintenance";
  assert.equal((await operator.browser.post(`${path}/begin`)).status, 503);
  world.neighbours.breakAfter = "";
  assert.deepEqual(
    (await trail()).slice(before).map(([action, outcome]) => [action, outcome]),
    [["maintenance.begin", "asked"]],
  );
  await operator.browser.submit(`${path}/end`, {});
});
