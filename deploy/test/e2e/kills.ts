import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import type { CallLog } from "./caller.ts";
import type { Service } from "../../tools/local/service.ts";
import { check, type CheckedLine, type Evidence, formatReport, type Report } from "./checker.ts";
import { type Load, startLoad } from "./load.ts";
import { loadCatalog, modelPrices } from "./load-models.ts";
import { createRandom, type Random } from "./random.ts";
import { type Customer, startWorld, type World, type WorldOptions } from "./world.ts";

/**
 * The kill -9 tests run a bounded load through the whole system, kill processes at random moments and hold the ledger
 * against what callers received and what the upstream served. Two variables change a run:
 *
 * - `KILLS`: kills in each file (default 3)
 * - `SEED`: the seed of load and moments; every run prints its own, so that it can be run again
 */
export function readKillPlan(t: TestContext): KillPlan {
  const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 1_000_000));
  const kills = Number(process.env["KILLS"] ?? 3);
  assert.ok(Number.isInteger(seed) && Number.isInteger(kills), "SEED and KILLS are whole numbers");
  t.diagnostic(`SEED=${seed} KILLS=${kills}`);
  return { seed, kills, random: createRandom(seed) };
}

export type KillPlan = { seed: number; kills: number; random: Random };

/** The system with its customers, ready for a load. */
export type KillWorld = { world: World; customers: Customer[]; creditNanos: bigint };

const creditNanos = 100_000_000_000_000n;
const callers = 16;
const defaultQuietTimeoutMs = 60_000;

/** Starts the system with the models of the load and three customers who can pay for it. */
export async function startKillWorld(
  serviceEnvironment: WorldOptions["serviceEnvironment"] = {},
): Promise<KillWorld & AsyncDisposable> {
  const world = await startWorld({
    catalog: loadCatalog,
    fake: { receivedLimit: 1, truthLimit: 1_000_000 },
    serviceEnvironment: {
      ...serviceEnvironment,
      // What the outbox is for shall be seen within the test, not after half a minute.
      billing: { OUTBOX_AGE_MS: "2000", USAGE_ACK_WAIT_MS: "3000", ...serviceEnvironment.billing },
    },
  });
  const customers = [];
  for (let count = 0; count < 3; count += 1) customers.push(await world.createCustomer({ creditNanos }));
  return { world, customers, creditNanos, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

export function startKillLoad({ world, customers }: KillWorld, { seed }: KillPlan): Load {
  return startLoad({ url: world.relayUrl, customers, callers, seed });
}

/** Something that can be killed. */
type Victim = { name: string; kill: () => Promise<void> };

/** Lets the load run for a random while, then kills; gives the number of calls that had ended by then. */
export async function killInMidLoad(t: TestContext, victim: Victim, { load, random }: KillPlan & { load: Load }) {
  await load.more(random.between(25, 50));
  // Half of the kills strike where a record is most at risk, right behind the end of an answer; the others anywhere.
  if (random.chance(50)) await load.nextWhole();
  else await pause(random.between(0, 60));
  await victim.kill();
  const ended = load.calls.length;
  t.diagnostic(`killed ${victim.name} when ${ended} calls had ended`);
  return ended;
}

/** A customer and the nano-USD that it was given. */
type Creditor = Customer & { creditNanos: bigint };

/** The system and those of its customers whose books are looked at. */
export type Books = { world: World; customers: readonly Creditor[] };

/** Waits until nothing is held, everything is confirmed and the spools of these relays hold nothing any more. */
async function untilQuiet({ world, customers }: Books, relays: readonly Service[], timeoutMs: number): Promise<void> {
  const look = async (): Promise<boolean> => {
    const { openHolds, unpostedCalls } = await world.authQuota.getHolds({});
    assert.deepEqual([openHolds, unpostedCalls], [0n, 0n], "open holds, unconfirmed charges");
    for (const { opsUrl } of relays) assert.equal(await readMetric(opsUrl, "relay_spool_records"), 0, "in the spool");
    for (const { accountId } of customers) {
      const { balanceNanos, availableNanos } = await world.moneyOf(accountId);
      assert.equal(availableNanos, balanceNanos, "available");
    }
    return true;
  };
  await until("no hold, an empty outbox, empty spools, all balances available", look, timeoutMs);
}

/** The value of a metric without labels, or the sum over its labels. Throws when there is no such metric. */
export async function readMetric(opsUrl: string, name: string): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  assert.ok(text.includes(`# TYPE ${name} `), `${opsUrl} has no metric ${name}`);
  const samples = [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))];
  return samples.reduce((sum, [, value]) => sum + Number(value), 0);
}

export type Outcomes = Pick<Evidence, "floors" | "lossRule" | "firstNumbers" | "overspendBoundNanos"> & {
  /** Prices of versions, beside those of the models; see Evidence. */
  versionPrices?: Evidence["prices"];
  calls: readonly CallLog[];
  /** The relays that run at the end. */
  relays: readonly Service[];
  quietTimeoutMs?: number;
};

/** What the checker found, what callers got in words, and the lines that it read. */
export type Audit = { report: Report; ends: string; lines: readonly CheckedLine[] };

/**
 * Waits until everything has come to rest, or for the timeout, and holds the ledger against both logs. What never came
 * to rest, and what is in quarantine, is a problem, too.
 */
export async function auditBooks(books: Books, outcomes: Outcomes): Promise<Audit> {
  const { world, customers } = books;
  const { calls, relays, quietTimeoutMs = defaultQuietTimeoutMs, versionPrices, ...rules } = outcomes;
  const restless = await untilQuiet(books, relays, quietTimeoutMs).then(
    () => [],
    (error: unknown) => [String(error)],
  );
  const accounts = [];
  const lines: CheckedLine[] = [];
  for (const { accountId, creditNanos: creditedNanos } of customers) {
    accounts.push({ accountId, creditedNanos, ...(await world.moneyOf(accountId)) });
    lines.push(...(await world.ledgerOf(accountId)).map(toChecked));
  }
  const prices = { ...modelPrices, ...versionPrices };
  const report = check({ calls, truth: world.fake.truth, lines, accounts, prices, ...rules });
  const { records } = await world.billing.listQuarantine({});
  report.problems.push(...records.map(({ reason }) => `in quarantine: ${reason}`), ...restless);
  return { report, ends: describeEnds(calls, lines), lines };
}

/** Audits the books and prints the report; fails unless all of it is right. */
export async function assertBooksRight(t: TestContext, scenario: KillWorld, outcomes: Outcomes): Promise<Report> {
  const customers = scenario.customers.map((customer) => ({ ...customer, creditNanos: scenario.creditNanos }));
  const { report, ends } = await auditBooks({ world: scenario.world, customers }, outcomes);
  t.diagnostic(formatReport(report));
  t.diagnostic(ends);
  assert.deepEqual(report.problems, []);
  return report;
}

/** What is checked of a ledger line. */
export function toChecked({ rid, accountId, kind, amountNanos, usage }: LedgerLine): CheckedLine {
  return {
    rid,
    accountId,
    kind,
    amountNanos,
    relaySession: usage?.relaySession ?? "",
    sequence: usage?.sequence ?? -1n,
    isRelayLost: usage?.endCause === EndCause.RELAY_LOST,
    priceVersion: usage?.priceVersion ?? "",
  };
}

function describeEnds(calls: readonly CallLog[], lines: readonly CheckedLine[]): string {
  const ends = Map.groupBy(calls, ({ outcome, status }) => (outcome === "error" ? `${status}` : outcome));
  const provisional = lines.filter(({ kind }) => kind === LineKind.PROVISIONAL_CHARGE).length;
  const counts = [...ends]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([end, some]) => `${end} ${some.length}`);
  return `callers got ${counts.join(", ")}; ${provisional} provisional charges`;
}

/**
 * API spec, error table: a service that cannot decide says 503 with Retry-After; 401 and 403 are decisions on a key
 * or on money, so sound calls with money must never see them.
 */
export function assertOnlyUnavailable(calls: readonly CallLog[]): void {
  for (const { plan, outcome, status, retryAfter, reason } of calls) {
    if (!plan.isSound || outcome !== "error") continue;
    assert.equal(status, 503, `call ${plan.number}: ${reason}`);
    assert.ok(Number(retryAfter) > 0, `call ${plan.number}: 503 with Retry-After ${retryAfter}`);
  }
}

/** Sound calls that were not answered whole, in words. */
export function soundButBroken(calls: readonly CallLog[]): string[] {
  return calls
    .filter(({ plan, outcome }) => plan.isSound && outcome !== "whole")
    .map(({ plan, outcome, status, reason }) => `call ${plan.number}: ${outcome} ${status ?? ""} ${reason}`);
}
