import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { type CallLog, type CallOptions, type CallPlan, callRelay } from "../e2e/caller.ts";
import { readCheckpoints } from "../e2e/checkpoints.ts";
import { finalKinds, type CheckedLine, type LossRule, type Report } from "../e2e/checker.ts";
import { auditBooks, readMetric, soundButBroken } from "../e2e/kills.ts";
import { type Load, startLoad } from "../e2e/load.ts";
import { loadCatalog } from "../e2e/load-models.ts";
import { createRandom, type Random } from "../e2e/random.ts";
import { type Customer, startWorld, type World } from "../e2e/world.ts";
import type { Service } from "../../tools/local/service.ts";
import type { ServiceName, StackOptions } from "../../tools/local/stack.ts";
import { type FaultFolder, openFaultFolder } from "./fault-points.ts";
import { type Links, openLinks } from "./links.ts";
import { lossBoundNanos, overspendBoundNanos, type Refusals, wrongRefusals } from "./rules.ts";

export type ScenarioOptions = {
  seed: number;
  /** Callers at work at the same time. */
  callers: number;
  /** Whether the relay admits calls within leases. */
  hasLeases?: boolean;
  /** Told what happens. */
  say: (text: string) => void;
  /** More variables of auth-quota. */
  authQuota?: Record<string, string>;
  /** The same of billing. */
  billing?: Record<string, string>;
  /** Stores that the scene is given instead of starting its own. */
  given?: StackOptions["given"];
  /** Variables that are told as they are, because they name several servers, which no proxy stands for. */
  direct?: readonly string[];
};

/** What one round of load and harm came to. */
export type RoundResult = { report: Report; ends: string; calls: readonly CallLog[] };

/** A load under way, and what the harm done meanwhile has to tell the checker. */
export type Round = {
  load: Load;
  /** Calls that were made beside the load and have ended. */
  others: CallLog[];
  /** Makes a call beside the load; the round waits for its end. */
  call: (plan: CallPlan, options?: Partial<CallOptions>) => Promise<CallLog>;
  /** What is known to be written down of calls that may never end. */
  floors: Map<string, bigint>;
  /** Whole answers whose records went with the disk of their relay. */
  lostRids: Set<string>;
  /** All calls of such a relay. */
  lostRelayRids: Set<string>;
  problems: string[];
  /** Writes down what is held of open calls, right after the death of a relay. */
  noteCheckpoints: () => Promise<void>;
  /** Makes one more customer; without a sum, with more money than it can spend. */
  addCustomer: (creditNanos?: bigint) => Promise<Customer>;
  /** Customers of the load: two with more money than they can spend, and one that runs out of it. */
  customers: readonly Customer[];
  /** Gives a customer money while the load runs. */
  credit: (customer: Customer, nanos: bigint) => Promise<void>;
  /** Set when callers must not notice the harm: every sound call with money is answered whole. */
  isUnnoticed: boolean;
  /** Waits until calls that begin now are answered whole; throws after 90 s. */
  untilServed: () => Promise<void>;
  /** Waits for the calls beside the load. */
  ended: () => Promise<unknown>;
  /** Waits until `count` more calls have an answer of whatever sort; throws after 60 s. */
  more: (count: number) => Promise<void>;
};

/** The whole system with a proxy on each link and fault points in each service. */
export type Scenario = AsyncDisposable & {
  world: World;
  links: Links;
  faults: FaultFolder;
  random: Random;
  say: (text: string) => void;
  /** Data folder of the stack: `redis`, `nats` and the like are below it. */
  folder: string;
  /** Runs a load with customers of its own while `harm` is done, waits for rest, and judges. */
  round: (harm: (round: Round) => Promise<void>, rules?: RoundRules) => Promise<RoundResult>;
};

export type RoundRules = Pick<Refusals, "alsoAllowed">;

const richNanos = 100_000_000_000_000n;
// Spent before a round is over, so that the last of it is fought for.
const poorNanos = 600_000_000n;
const answerTimeoutMs = 60_000;
const servedTimeoutMs = 90_000;
// Of the calls that ended last so many must be whole, for the system to count as serving again.
const recentCalls = 50;
const servedCalls = 12;
const quietTimeoutMs = 90_000;

// Above the second between two heartbeats of a relay; and what the outbox is for shall be seen within seconds.
const variables: Record<ServiceName, Record<string, string>> = {
  relay: {},
  "auth-quota": { RELAY_SILENT_MS: "7000" },
  billing: { OUTBOX_AGE_MS: "2000", USAGE_ACK_WAIT_MS: "3000" },
  "video-task": {},
};

/** Starts the system. */
export async function startScene(options: ScenarioOptions): Promise<Scenario> {
  const { seed, callers, say, given, direct = [], hasLeases = false } = options;
  await using resources = new AsyncDisposableStack();
  const faultPlace = await mkdtemp(join(tmpdir(), "relay-faults-"));
  removeAtEnd(faultPlace);
  resources.defer(() => rm(faultPlace, { recursive: true, force: true }));
  const faults = await openFaultFolder(faultPlace);
  const links = resources.use(await openLinks());
  const serviceEnvironment = Object.fromEntries(
    Object.entries(variables).map(([name, own]) => [name, { ...own, ...faults.environmentOf() }]),
  );
  if (hasLeases) Object.assign(serviceEnvironment["relay"] ?? {}, { LEASE_FROM_CALLS_PER_SECOND: "1" });
  Object.assign(serviceEnvironment["auth-quota"] ?? {}, options.authQuota);
  Object.assign(serviceEnvironment["billing"] ?? {}, options.billing);
  const world = resources.use(
    await startWorld({
      catalog: (fakeUrl) => loadCatalog(links.lead("relay to upstream", fakeUrl)),
      fake: { receivedLimit: 1, truthLimit: 1_000_000 },
      serviceEnvironment,
      reroute: (service, told) => ({ ...links.reroute(service, told), ...only(told, direct) }),
      ...(given && { given }),
    }),
  );
  const random = createRandom(seed);
  const url = links.lead("callers to relay", world.relayUrl);
  const round = createRounds({ world, url, seed, callers, hasLeases });
  const owned = resources.move();
  const folder = dirname(world.stack.catalogFile);
  return { world, links, faults, random, say, folder, round, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const only = (told: Record<string, string>, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(told).filter(([name]) => names.includes(name)));

/** `url`: where callers find the relay. */
type Rounds = { world: World; url: string; seed: number; callers: number; hasLeases: boolean };

function createRounds({ world, url, seed, callers, hasLeases }: Rounds): Scenario["round"] {
  const firstNumbers = new Map<string, bigint>();
  const bound = overspendBoundNanos(callers);
  let count = 0;
  return async (harm, { alsoAllowed = [] } = {}) => {
    count += 1;
    const customers = await createCustomers(world, [richNanos, richNanos, poorNanos]);
    const load = startLoad({ url, customers: [...customers], callers, seed: seed * 100 + count });
    const round = createRound({ load, world, url, customers });
    try {
      await harm(round);
      await round.untilServed();
    } catch (error) {
      round.problems.push(`the harm could not be done: ${String(error)}`);
    }
    await load.stop();
    await round.ended();
    const calls = [...load.calls, ...round.others];
    const richIds = new Set(customers.filter(isRich).map(({ accountId }) => accountId));
    const { report, ends, lines } = await auditBooks(
      { world, customers },
      {
        calls,
        relays: [world.stack.services.relay],
        floors: round.floors,
        lossRule: lossRuleOf(round),
        firstNumbers,
        overspendBoundNanos: bound,
        quietTimeoutMs,
      },
    );
    report.problems.push(...round.problems, ...wrongRefusals(calls, { richIds, alsoAllowed }));
    if (round.isUnnoticed) {
      report.problems.push(...soundButBroken(load.calls.filter(({ plan }) => richIds.has(plan.accountId))));
    }
    noteNumbers(firstNumbers, lines);
    // What is judged need not be kept: a long run must not need more and more memory.
    world.fake.forget();
    return { report, ends: hasLeases ? `${ends}; ${await leasedCalls(world)}` : ends, calls: load.calls };
  };
}

async function leasedCalls({ stack }: World): Promise<string> {
  const leased = await readMetric(stack.services.relay.opsUrl, "relay_leased_calls_total");
  return `${leased} calls within leases since the relay's last start`;
}

type Creditor = Customer & { creditNanos: bigint };

async function createCustomers(world: World, credits: readonly bigint[]): Promise<Creditor[]> {
  const customers: Creditor[] = [];
  for (const creditNanos of credits) {
    // What was killed a moment ago may not be reached at once.
    const customer = await until("a customer is made", () => world.createCustomer({ creditNanos }), answerTimeoutMs);
    customers.push({ ...customer, creditNanos });
  }
  return customers;
}

const isRich = ({ creditNanos }: Creditor): boolean => creditNanos >= richNanos;

type RoundOptions = { load: Load; world: World; url: string; customers: Creditor[] };

function createRound({ load, world, url, customers }: RoundOptions): Round {
  const floors = new Map<string, bigint>();
  const others: CallLog[] = [];
  const problems: string[] = [];
  const open = new Set<Promise<unknown>>();
  let credits = 0;
  const agent = new Agent({ keepAlive: true });
  const call: Round["call"] = async (plan, options) => {
    const log = await callRelay(plan, { url, agent, ...options });
    others.push(log);
    return log;
  };
  return {
    load,
    others,
    floors,
    call: (plan, options) => {
      const calling = call(plan, options);
      const ended = calling.catch((error: unknown) => problems.push(String(error)));
      open.add(ended);
      return calling;
    },
    untilServed: async () => {
      const sinceMs = Date.now();
      const isServed = ({ outcome, startedAtMs }: CallLog): boolean => outcome === "whole" && startedAtMs >= sinceMs;
      const areServed = (): boolean => load.calls.slice(-recentCalls).filter(isServed).length >= servedCalls;
      await until("calls are served again", areServed, servedTimeoutMs);
    },
    ended: () => Promise.all(open).finally(() => agent.destroy()),
    lostRids: new Set(),
    lostRelayRids: new Set(),
    problems,
    isUnnoticed: false,
    customers: [...customers],
    credit: async ({ accountId }, amountNanos) => {
      credits += 1;
      await world.billing.credit({ accountId, amountNanos, paymentId: `round-${accountId}-${credits}` });
      const creditor = customers.find((one) => one.accountId === accountId);
      if (creditor) creditor.creditNanos += amountNanos;
    },
    addCustomer: async (creditNanos = richNanos) => {
      const [added] = await createCustomers(world, [creditNanos]);
      if (!added) throw new Error("no customer was made");
      customers.push(added);
      return added;
    },
    noteCheckpoints: async () => {
      const { redis } = world.stack.stores.urls;
      for (const [rid, nanos] of await readCheckpoints(redis)) floors.set(rid, nanos);
    },
    more: async (count) => {
      const isTooLate = new AbortController();
      const late = pause(answerTimeoutMs, "late", { signal: isTooLate.signal }).catch(() => "cleared");
      const first = await Promise.race([load.more(count), late]);
      isTooLate.abort();
      if (first === "late") throw new Error(`callers got no ${count} answers within ${answerTimeoutMs / 1_000} s`);
    },
  };
}

function lossRuleOf({ lostRids, lostRelayRids }: Round): LossRule {
  return { boundNanos: lossBoundNanos, lostRids, lostRelayRids };
}

function noteNumbers(firstNumbers: Map<string, bigint>, lines: readonly CheckedLine[]): void {
  for (const { relaySession, sequence, kind } of lines) {
    if (!finalKinds.has(kind) || sequence < (firstNumbers.get(relaySession) ?? 0n)) continue;
    firstNumbers.set(relaySession, sequence + 1n);
  }
}

/** Sends a signal to the process of a service. */
export function signal({ pid }: Pick<Service, "pid">, name: NodeJS.Signals): void {
  process.kill(pid, name);
}
