import assert from "node:assert/strict";
import { after, before, describe, test, type TestContext } from "node:test";
import type { Service } from "../../tools/local/service.ts";
import type { CallLog } from "./caller.ts";
import { formatReport } from "./checker.ts";
import { addLogins, type Change } from "./change-logins.ts";
import { browserAt, fleetNames, type Fleet, type FleetName, startAt, startFirstConsole, startFleet } from "./fleet.ts";
import { auditBooks } from "./kills.ts";
import { createRandom } from "./random.ts";
import { checkVideosMade, createAsks, createBalancer, startTraffic } from "./traffic.ts";
import type { Customer } from "./world.ts";

const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 1_000_000));
const count = Number(process.env["ORDERS"] ?? 1);
const creditNanos = 100_000_000_000_000n;

/** The services in orders that look random, and are the same for the same seed. */
function shuffledOrders(): FleetName[][] {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => {
    const left = [...fleetNames];
    return fleetNames.map(() => {
      const name = random.pick(left);
      left.splice(left.indexOf(name), 1);
      return name;
    });
  });
}

describe("two replicas of each service, restarted one by one under load", () => {
  const resources = new AsyncDisposableStack();
  let fleet: Fleet;
  let services: Record<FleetName, readonly Service[]>;
  let customers: (Customer & { creditNanos: bigint })[];
  let videoCustomer: Customer;
  let asks: ReturnType<typeof createAsks>;
  let balancer: ReturnType<typeof createBalancer>;
  const all: CallLog[] = [];
  const made: string[] = [];
  before(async () => {
    fleet = resources.use(await startFleet({ areTwo: true }));
    const { world, places } = fleet;
    const startSecond = async (name: FleetName): Promise<Service> =>
      resources.use(await startAt(name, places[name][1]));
    const { relay, authQuota, billing, videoTask } = world.stack.services;
    const { service, browser } = await startFirstConsole(places.console[0]);
    resources.use(service);
    const seconds = await Promise.all(fleetNames.map(startSecond));
    const firsts = [authQuota, billing, videoTask, relay, service];
    const pairs = fleetNames.map((name, index) => [name, [firsts[index], seconds[index]]]);
    services = Object.fromEntries(pairs) as typeof services;
    const customer = async () => ({ ...(await world.createCustomer({ creditNanos })), creditNanos });
    customers = [await customer(), await customer()];
    videoCustomer = await customer();
    balancer = createBalancer(services);
    asks = createAsks({ balancer, customers, videoCustomer, browser, random: createRandom(seed) });
    assert.equal((await browserAt(places.console[1], browser).get("/operator/accounts")).status, 200);
  });
  after(() => resources.disposeAsync());

  const restart = async (service: Service, change?: Record<string, string>): Promise<void> => {
    balancer.leave(service);
    const { ended } = service;
    await service.restart(change);
    assert.equal(await ended, "exit code 0", service.name);
    balancer.join(service);
  };

  /** Restarts replica by replica; a service begins when the first replica of the one before it is back. */
  async function roll(order: readonly FleetName[], change?: Change): Promise<void> {
    const rolling: Promise<void>[] = [];
    for (const name of order) {
      const [first, ...more] = services[name];
      assert.ok(first);
      await restart(first, change?.[name]);
      rolling.push(...more.map((service) => restart(service, change?.[name])));
    }
    await Promise.all(rolling);
  }

  /** Does something while callers, videos and pages are under way, of which none may fail. */
  async function underLoad(t: TestContext, work: () => Promise<void>): Promise<void> {
    const { calls, videos, failures, pages, more, stop } = startTraffic(asks, { callers: 8, seed });
    try {
      await more(10);
      await work();
      await more(10);
    } finally {
      await stop();
    }
    const ended = (wanted: string): number => calls.filter(({ outcome }) => outcome === wanted).length;
    const others = `${videos.length} videos, ${pages()} pages`;
    t.diagnostic(
      `sent ${calls.length}, whole ${ended("whole")}, cut ${ended("cut")}, ${others}, failed ${failures.length}`,
    );
    // Before what may fail: these are in the books in any case.
    all.push(...calls);
    made.push(...videos);
    assert.deepEqual(failures, []);
  }

  for (const order of shuffledOrders()) {
    test("in a random order: no call, no video, no page fails", async (t) => {
      t.diagnostic(`SEED=${seed}: ${order.join(", ")}`);
      await underLoad(t, () => roll(order));
    });
  }

  test("every login to a store is changed: no call, no video, no page fails", (t) =>
    underLoad(t, async () => {
      const { told, dropOld } = await addLogins(fleet.world.stack);
      await roll(fleetNames, told);
      await dropOld();
    }));

  test("the books are right: every call and every video is charged once", async (t) => {
    const { world } = fleet;
    const { report } = await auditBooks({ world, customers }, { calls: all, relays: services.relay });
    t.diagnostic(formatReport(report));
    assert.deepEqual(report.problems, []);
    assert.equal(report.booked, all.length);
    await checkVideosMade(world, videoCustomer, made);
  });
});
