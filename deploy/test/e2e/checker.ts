import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { Truth } from "#fake-provider/truth.ts";
import { type CallLog, silenceReason } from "./caller.ts";
import type { Prices } from "./load-models.ts";

/** A ledger line of a call, as far as it is checked. */
export type CheckedLine = {
  rid: string;
  accountId: string;
  kind: LineKind;
  amountNanos: bigint;
  /** The relay process that recorded the event, and the event's number there. */
  relaySession: string;
  sequence: bigint;
  /** Whether it says that the relay was lost: the charge is what a checkpoint said. */
  isRelayLost?: boolean;
  /** The version of the prices that it was charged at. */
  priceVersion?: string;
};

/** An account after everything came to rest. */
export type CheckedAccount = {
  accountId: string;
  creditedNanos: bigint;
  balanceNanos: bigint;
  availableNanos: bigint;
  openHolds: bigint;
  unpostedCalls: bigint;
};

/** What was seen on three sides: the callers', the upstream's, the ledger's. */
export type Evidence = {
  calls: readonly CallLog[];
  truth: readonly Truth[];
  lines: readonly CheckedLine[];
  accounts: readonly CheckedAccount[];
  /** By model; those of one price version by `model@version`. */
  prices: Record<string, Prices>;
  /** Nano-USD that a call must cost at least, by rid: what a checkpoint is known to have written down. */
  floors?: ReadonlyMap<string, bigint>;
  /** What may be lost with a relay; left out: a call whose end is not recorded is judged by its floor. */
  lossRule?: LossRule;
  /** By relay process, the number of its first event that is not in a report before this one. */
  firstNumbers?: ReadonlyMap<string, bigint>;
  /** Nano-USD by which an account may be below zero (money invariant I16); left out: 0. */
  overspendBoundNanos?: bigint;
};

/** A relay that dies takes with it what its calls have cost since their last checkpoints. */
export type LossRule = {
  /** Nano-USD that a call whose end no relay recorded may be charged less than what was emitted of it. */
  boundNanos: (truth: Truth) => bigint;
  /** Whole answers whose final records went with their relay's disk. */
  lostRids: ReadonlySet<string>;
  /** Calls of relays whose disk went with them: these relays' numbers may have holes. */
  lostRelayRids: ReadonlySet<string>;
};

/** What was served of a call and will never be charged, because its relay died. */
export type Loss = { rid: string; nanos: bigint; boundNanos: bigint };

export type Report = {
  calls: number;
  /** Calls whose caller received a whole answer. */
  served: number;
  /** Served calls with one final charge of exactly what they cost. */
  booked: number;
  /** Calls with less booked than they must cost. */
  missing: number;
  /** Calls that are booked more than once. */
  double: number;
  /** Calls with more booked than they may cost. */
  overcharged: number;
  /** Nano-USD by which accounts are below zero. */
  overspentNanos: bigint;
  /** Calls that did not reach their caller whole, and what was served of them without being charged. */
  broken: number;
  forgoneNanos: bigint;
  /** The part of it that went with a relay, call by call; by the evidence's `lossRule`. */
  losses: Loss[];
  /** Everything that is wrong, in words; empty when the books are right. */
  problems: string[];
};

type Case = { rid: string; call: CallLog | undefined; truth: Truth[]; lines: CheckedLine[] };

/** What a call must cost at least and may cost at most. */
type Due = { minNanos: bigint; maxNanos: bigint };

/** What is found where there is nothing to find. */
export const emptyReport = (): Report => ({
  calls: 0,
  served: 0,
  booked: 0,
  missing: 0,
  double: 0,
  overcharged: 0,
  overspentNanos: 0n,
  broken: 0,
  forgoneNanos: 0n,
  losses: [],
  problems: [],
});

/** Holds the ledger against what callers received and the upstream served. */
export function check(evidence: Evidence): Report {
  const report = { ...emptyReport(), calls: evidence.calls.length };
  for (const one of casesOf(evidence, report.problems).values()) judge(one, evidence, report);
  for (const account of evidence.accounts) judgeAccount(account, evidence, report);
  report.problems.push(...holesOf(evidence));
  return report;
}

/** The report in one line. */
export function formatReport(report: Report): string {
  const { calls, served, booked, missing, double, overcharged, overspentNanos, broken, forgoneNanos } = report;
  const counts = { calls, served, booked, missing, double, overcharged, overspentNanos, broken, forgoneNanos };
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}

function casesOf({ calls, truth, lines }: Evidence, problems: string[]): Map<string, Case> {
  const cases = new Map<string, Case>();
  const of = (rid: string): Case => {
    const found = cases.get(rid) ?? { rid, call: undefined, truth: [], lines: [] };
    cases.set(rid, found);
    return found;
  };
  for (const call of calls) {
    if (call.reason === silenceReason) problems.push(`call ${call.plan.number} was left without a word: ${call.rid}`);
    if (call.rid === undefined) continue;
    if (of(call.rid).call) problems.push(`${call.rid}: two calls have this id`);
    of(call.rid).call = call;
  }
  for (const one of truth) if (one.rid !== null) of(one.rid).truth.push(one);
  for (const line of lines) of(line.rid).lines.push(line);
  return cases;
}

function judge(one: Case, { prices, floors, lossRule }: Evidence, report: Report): void {
  const { rid, call, truth, lines } = one;
  const complain = (problem: string): void => void report.problems.push(`${rid}: ${problem}`);
  if (truth.length > 1) complain(`the upstream was asked ${truth.length} times`);
  const isServed = call?.outcome === "whole";
  const due = dueOf(one, prices, floors?.get(rid) ?? 0n);
  const chargedNanos = -sumOf(lines);
  const isDouble = isBookedTwice(lines);
  const hasFinal = lines.some(({ kind }) => finalKinds.has(kind));
  const isLost = lossRule?.lostRids.has(rid) === true && !hasFinal;
  const isMissing = !isLost && (chargedNanos < due.minNanos || (isServed && !hasFinal));
  const isOver = chargedNanos > due.maxNanos;
  const story = `${call?.outcome ?? "unknown to callers"}, ${kindsOf(lines)}, charged ${chargedNanos}`;
  if (isServed && !truth[0]?.claim) complain("a whole answer that the upstream never gave");
  if (isDouble) complain(`booked more than once (${story})`);
  if (isMissing) complain(`must cost at least ${due.minNanos} (${story})`);
  if (isOver) complain(`may cost at most ${due.maxNanos} (${story})`);
  if (isAdjustedAlone(lines)) complain(`an adjustment of no charge (${story})`);
  if (lines.some(({ amountNanos }) => amountNanos > 0n)) complain(`a charge gives money (${story})`);
  const isEnded = lines.some(({ kind, isRelayLost }) => finalKinds.has(kind) && isRelayLost !== true);
  const loss = lossRule && !isEnded ? lossOf(one, due.maxNanos - chargedNanos, lossRule) : undefined;
  if (loss) report.losses.push(loss);
  if (loss && loss.nanos > loss.boundNanos)
    complain(`lost ${loss.nanos}, at most ${loss.boundNanos} may be (${story})`);
  report.served += isServed ? 1 : 0;
  report.booked += isServed && hasFinal && !isDouble && !isMissing && !isOver ? 1 : 0;
  report.missing += isMissing ? 1 : 0;
  report.double += isDouble ? 1 : 0;
  report.overcharged += isOver ? 1 : 0;
  if (isServed || due.maxNanos === 0n) return;
  report.broken += 1;
  if (due.maxNanos > chargedNanos) report.forgoneNanos += due.maxNanos - chargedNanos;
}

function lossOf({ rid, truth: [served] }: Case, nanos: bigint, { boundNanos }: LossRule): Loss | undefined {
  return served && nanos > 0n ? { rid, nanos, boundNanos: boundNanos(served) } : undefined;
}

// The rules of "What a broken answer costs": whole, what the provider counted; refused or failed before content,
// nothing; cut, at most what the upstream emitted and at least what was written down of it.
function dueOf({ call, truth, lines }: Case, prices: Record<string, Prices>, floorNanos: bigint): Due {
  const [served] = truth;
  if (call?.outcome === "error" || !served) return { minNanos: 0n, maxNanos: 0n };
  const modelPrices = prices[`${served.model}@${lines[0]?.priceVersion}`] ?? prices[served.model];
  if (!modelPrices) throw new Error(`${served.model} has no price`);
  if (call?.outcome === "whole" && served.claim) {
    const exactNanos = priceOf(served.claim, modelPrices);
    return { minNanos: exactNanos, maxNanos: exactNanos };
  }
  const provisionalNanos = -sumOf(lines.filter(({ kind }) => kind === LineKind.PROVISIONAL_CHARGE));
  return { minNanos: max(floorNanos, provisionalNanos), maxNanos: emittedPrice(served, modelPrices) };
}

/** What a call may cost at most that did not reach its caller whole. */
export function emittedPrice({ claim, tokensEmitted, isClaimEmitted }: Truth, prices: Prices): bigint {
  if (!claim || (tokensEmitted === 0 && !isClaimEmitted)) return 0n;
  const seenNanos = priceOf({ ...claim, outputTokens: tokensEmitted, reasoningTokens: 0 }, prices);
  return isClaimEmitted ? max(seenNanos, priceOf(claim, prices)) : seenNanos;
}

/** What units cost. On purpose not the services' own arithmetic: they are what is checked. */
export function priceOf(claim: NonNullable<Truth["claim"]>, prices: Prices): bigint {
  const buckets = Object.keys(prices) as (keyof Prices)[];
  const millionths = buckets.reduce((sum, bucket) => sum + BigInt(claim[bucket]) * prices[bucket], 0n);
  return millionths / 1_000_000n + (millionths % 1_000_000n > 0n ? 1n : 0n);
}

/** The kinds of lines that say how a call has ended. */
export const finalKinds: ReadonlySet<LineKind> = new Set([LineKind.CHARGE, LineKind.FINAL_ADJUSTMENT]);

// One charge, or one provisional charge and at most one adjustment of it.
export function isBookedTwice(lines: readonly Pick<CheckedLine, "kind">[]): boolean {
  const kinds = lines.map(({ kind }) => kind);
  const isRepeated = new Set(kinds).size < kinds.length;
  return isRepeated || (kinds.includes(LineKind.CHARGE) && kinds.length > 1);
}

function isAdjustedAlone(lines: readonly CheckedLine[]): boolean {
  const kinds = lines.map(({ kind }) => kind);
  return kinds.includes(LineKind.FINAL_ADJUSTMENT) && !kinds.includes(LineKind.PROVISIONAL_CHARGE);
}

/** The kinds of lines in words. */
export function kindsOf(lines: readonly Pick<CheckedLine, "kind">[]): string {
  const nameOf = (kind: LineKind): string =>
    Object.entries(LineKind).find(([, value]) => value === kind)?.[0] ?? String(kind);
  return lines.length === 0 ? "no line" : lines.map(({ kind }) => nameOf(kind)).join(" and ");
}

/** Notes in the report what is wrong with an account at rest: its sum, what is held, and what it overspent. */
export function judgeAccount(
  account: CheckedAccount,
  { lines, overspendBoundNanos = 0n }: Pick<Evidence, "lines" | "overspendBoundNanos">,
  report: Report,
): void {
  const { accountId, creditedNanos, balanceNanos, availableNanos, openHolds, unpostedCalls } = account;
  const complain = (problem: string): void => void report.problems.push(`${accountId}: ${problem}`);
  const bookedNanos = creditedNanos + sumOf(lines.filter((line) => line.accountId === accountId));
  if (balanceNanos !== bookedNanos) complain(`the balance is ${balanceNanos}, its lines sum to ${bookedNanos}`);
  if (openHolds !== 0n) complain(`${openHolds} holds are open`);
  if (unpostedCalls !== 0n) complain(`${unpostedCalls} charges are unconfirmed`);
  if (availableNanos !== balanceNanos) complain(`${availableNanos} of ${balanceNanos} are available`);
  if (balanceNanos >= 0n) return;
  report.overspentNanos -= balanceNanos;
  if (-balanceNanos > overspendBoundNanos) complain(`spent ${-balanceNanos} more than it had`);
}

// Every process of a relay numbers its final events from 0 on: a hole is an event that was lost (money invariant I11).
function holesOf({ lines, firstNumbers, lossRule }: Evidence): string[] {
  const finals = lines.filter(({ kind }) => finalKinds.has(kind));
  const lostRelays = new Set(
    lines.filter(({ rid }) => lossRule?.lostRelayRids.has(rid)).map((line) => line.relaySession),
  );
  const bySession = Map.groupBy(finals, ({ relaySession }) => relaySession);
  return [...bySession].flatMap(([session, events]) => {
    if (lostRelays.has(session)) return [];
    const numbers = new Set(events.map(({ sequence }) => sequence));
    const first = firstNumbers?.get(session) ?? 0n;
    const missing: string[] = [];
    for (let number = first; number < first + BigInt(numbers.size) + BigInt(missing.length); number += 1n) {
      if (!numbers.has(number)) missing.push(`event ${number} of relay ${session} is not in the ledger`);
    }
    return missing;
  });
}

function sumOf(lines: readonly CheckedLine[]): bigint {
  return lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
}

function max(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
