import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type ChildProcess, startProcess } from "#shared/testing/child-process.ts";
import { createBrowser } from "../../testing/browser.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { password, setUp, type TestPerson } from "../../testing/people.ts";
import { readyState } from "../../testing/relay-neighbour.ts";

const entry = fileURLToPath(new URL("../../main.ts", import.meta.url));
const path = "/operator/installation/catalog/versions";
const text = "# one\nupstreams: {}\nmodels: {}\n";

let world: World;
let operator: TestPerson;
before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  const { catalogs, relays } = world.neighbours;
  catalogs.applied = [text, "# two\n"].map((content) => ({ content, author: "ann@example.com", note: "" }));
  relays.verdict = { catalog: { models: [] } };
  relays.file = "# two\n";
  relays.state = readyState();
  Object.assign(relays.state.catalog ?? {}, { isStored: true, appliedVersion: 2n });
});
after(() => world[Symbol.asyncDispose]());

/** A process of the console; tells the port on which it answers. */
async function start(): Promise<{ child: ChildProcess; port: number }> {
  const given = Object.entries(world.config).map(([name, value]) => [name, String(value)]);
  const { PASSWORD_MEMORY_KIB: _memory, PASSWORD_PASSES: _passes, ...environment } = Object.fromEntries(given);
  const ready = Promise.withResolvers<number>();
  const child = await startProcess({
    command: process.execPath,
    args: [entry],
    environment,
    orphanSignal: "SIGKILL",
    onLine: (line) => {
      const port = /"httpPort":(\d+)/.exec(line)?.[1];
      if (port !== undefined) ready.resolve(Number(port));
    },
  });
  return { child, port: await ready.promise };
}

const outcomes = async (): Promise<unknown[]> => {
  const rows = await world.database.sql(
    "SELECT outcome FROM console.audit_entry WHERE action = 'catalog.rollback' ORDER BY audit_id",
  );
  return rows.map(({ outcome }) => outcome);
};

test("killed between auth-quota's answer and its own: the audit log says that it was asked; again, it is applied once", async () => {
  const { catalogs } = world.neighbours;
  const { child, port } = await start();
  const signedIn = createBrowser(port);
  for (const [name, value] of operator.browser.cookies) signedIn.cookies.set(name, value);
  const form = { applied: "1", base: "2", note: "", password };
  await signedIn.get(`${path}?applied=1`);
  catalogs.beforeAnswer = () => child.end("SIGKILL");
  await assert.rejects(signedIn.post(path, form));
  assert.equal(await child.ended, "ended by SIGKILL");
  catalogs.beforeAnswer = async () => undefined;
  assert.deepEqual(await outcomes(), ["asked"]);

  await operator.browser.get(`${path}?applied=1`);
  assert.equal((await operator.browser.post(path, form)).status, 303);
  assert.equal(catalogs.applied.length, 3);
  assert.deepEqual(await outcomes(), ["asked", "asked", "done"]);
});
