import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { until } from "#shared/testing/until.ts";
import type { Service } from "../../tools/local/service.ts";
import type { CallLog } from "./caller.ts";
import { formatReport } from "./checker.ts";
import { fleetNames, type Fleet, type FleetName, startAt, startFirstConsole, startFleet } from "./fleet.ts";
import { auditBooks } from "./kills.ts";
import { root, unpackBefore, whyNotKnown } from "./previous-version.ts";
import { createRandom } from "./random.ts";
import { type CallPlans, callKinds, checkVideosMade, createAsks, createBalancer } from "./traffic.ts";
import type { Customer } from "./world.ts";

const creditNanos = 100_000_000_000_000n;

describe("one version of skew between any two services, on the new schema", { skip: whyNotKnown }, () => {
  const resources = new AsyncDisposableStack();
  let oldRoot: string;
  let fleet: Fleet;
  let asks: CallPlans;
  let customer: Customer & { creditNanos: bigint };
  let videoCustomer: Customer;
  const running = {} as Record<FleetName, Service>;
  const calls: CallLog[] = [];
  const videos: string[] = [];

  before(async () => {
    const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "relay-previous-")));
    oldRoot = folder.path;
    await unpackBefore(oldRoot);
    fleet = resources.use(await startFleet({ areTwo: false }));
    const { world, places } = fleet;
    const { relay, authQuota, billing, videoTask } = world.stack.services;
    const firsts = { relay, "auth-quota": authQuota, billing, "video-task": videoTask };
    await Promise.all(Object.values(firsts).map((service) => service.kill("SIGTERM")));
    resources.defer(async () => {
      for (const one of Object.values(running).toReversed()) await one[Symbol.asyncDispose]();
    });
    const start = async (name: FleetName): Promise<void> => {
      running[name] = await startAt(name, places[name][0], { root: oldRoot });
    };
    await Promise.all(Object.keys(firsts).map((name) => start(name as FleetName)));
    const { service, browser } = await startFirstConsole(places.console[0], oldRoot);
    running.console = service;
    customer = { ...(await world.createCustomer({ creditNanos })), creditNanos };
    videoCustomer = await world.createCustomer({ creditNanos });
    const take = (name: FleetName): Service => running[name];
    const balancer = { ...createBalancer({} as never), take };
    asks = createAsks({ balancer, customers: [customer], videoCustomer, browser, random: createRandom(1) });
  });
  after(() => resources.disposeAsync());

  /** Puts the other version of a service in the place of the one that runs. */
  async function replace(name: FleetName, from: string): Promise<void> {
    const { ended } = running[name];
    await running[name].kill("SIGTERM");
    assert.equal(await ended, "exit code 0", name);
    running[name] = await startAt(name, fleet.places[name][0], { root: from });
    // The only one of its name was away: the others find it again within seconds.
    const { relay } = running;
    const headers = { authorization: `Bearer ${videoCustomer.secret}` };
    await until("the relay reaches auth-quota", async () => (await fetch(`${relay.url}/v1/models`, { headers })).ok);
    await until("the relay reaches video-task", async () => (await fetch(`${relay.url}/v1/videos`, { headers })).ok);
    await until("the console reaches all", () => asks.pages());
  }

  async function askAll(): Promise<void> {
    const [pages, video, ...answered] = await Promise.all([
      asks.pages(),
      asks.video(),
      ...callKinds.map((kind, index) => asks.call(kind, calls.length + index)),
    ]);
    assert.ok(pages > 0);
    videos.push(video);
    calls.push(...answered);
    assert.deepEqual(
      answered.map(({ outcome, reason }) => `${outcome} ${reason}`),
      callKinds.map(() => "whole "),
    );
  }

  test("all services are of the version before", askAll);

  for (const name of fleetNames) {
    test(`${name} is upgraded`, async () => {
      await replace(name, root);
      await askAll();
    });
  }

  for (const name of fleetNames) {
    test(`${name} is put back to the version before`, async () => {
      await replace(name, oldRoot);
      await askAll();
    });
  }

  test("every call and every video is booked once", async (t) => {
    const { world } = fleet;
    const { report } = await auditBooks({ world, customers: [customer] }, { calls, relays: [running.relay] });
    t.diagnostic(`${formatReport(report)}; ${videos.length} videos`);
    assert.deepEqual(report.problems, []);
    assert.equal(report.booked, calls.length);
    await checkVideosMade(world, videoCustomer, videos);
  });
});
