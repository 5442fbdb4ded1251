import { fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { CallState, Verdict, type Result, type SettleSchema } from "#proto/authquota/v1/authquota_pb.ts";
import {
  EndCause,
  RecordKind,
  UsageRecordedSchema,
  UsageSource,
  type UsageRecorded,
} from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Histogram } from "#shared/metrics/family.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { costNanos, usageBuckets, type Units } from "#shared/money/pricing.ts";
import { pricedFor, type Model } from "../catalog/models.ts";
import { pricesFor, type PriceTable, type PriceTraits } from "../catalog/prices.ts";
import type { LiveCall } from "../live-call.ts";
import { outputOf } from "../dialects/dialect.ts";
import { chargeWithin, freeWithin, noteTold, withinLease, type LeasedCall } from "../leased-call.ts";
import { lookUpCalls } from "./look-up.ts";
import { countedTally, inputOf, meterCall, priced, type MeterReading } from "./meter.ts";
import type { Metrics } from "../metrics.ts";
import { costOf, divide, withOtherModels, type Division } from "./other-models.ts";
import { boundCharge, boundedRecord, boundTally, sumOf, tellable } from "./possible-usage.ts";
import type { Publisher } from "./publish.ts";
import type { QuotaSession } from "./quota-session.ts";
import type { Spool } from "./spool.ts";
import { asPricedTools } from "./tool-units.ts";
import { causeOnBill, endingOf } from "./outcomes.ts";
import { checkPriced } from "./unpriced.ts";
import { encodeRecord, type CallRecord } from "./usage-record.ts";

/** What settling needs: the homes of a charge that the relay can reach. */
export type SettlementDeps = {
  relaySession: string;
  spool: Spool;
  quota: QuotaSession;
  publisher: Publisher;
  metrics: Metrics;
  log: Logger;
  nextSequence: () => bigint;
  /** Charges that auth-quota refuses for good, until JetStream has them. */
  refused: Set<string>;
  watch: LiveWatch;
  /** Hears of each charge that is told to be booked. */
  onBooked: (rid: string) => void;
};

/** When all running calls were last looked at, by the wall clock, and how that is done. */
export type LiveWatch = { lookedAtMs: number; look: () => void };

/** The rid of an encoded record. Throws when the record is not one. */
export function ridOfRecord(record: Uint8Array): string {
  return fromBinary(UsageRecordedSchema, record).rid;
}

// Longer than any model's name, and far below what makes a record too large for auth-quota.
const maxModelLength = 200;

/** What a call is charged for, its parts of other models apart, and the row with the prices of all of it. */
type MeteredCharge = MeterReading & { model: Model; division: Division | undefined };

function meter(call: LiveCall, endCause: EndCause): MeteredCharge {
  const { requested, model } = call;
  const ending = endingOf(endCause, call.isOrphan);
  const whole = meterCall(countedTally(call.tally, call.offered.quirks), ending, requested, model.prices);
  const division = whole.source === UsageSource.PROVIDER ? divide(call, whole.measured) : undefined;
  if (!division?.others.length) return { ...whole, model, division };
  const { own, others } = division;
  const otherModelsNanos = others.reduce((sum, part) => sum + part.costNanos, 0n);
  const usage = { ...priced(own, model.prices), otherModelsNanos };
  return { usage, measured: own, source: whole.source, model: withOtherModels(model), division };
}

/** What the call costs the operator where it was served; undefined where the catalog does not say. */
function upstreamCostOf(call: LiveCall, { measured, division }: MeteredCharge): bigint | undefined {
  const { offered, upstream, upstreamModel } = call;
  const cost = costOf(offered, { upstream, upstreamModel });
  if (!cost) return undefined;
  const costAt = (usage: Units, table: PriceTable): bigint => {
    const prices = pricesFor(table, () => traitsOf(call));
    return costNanos(asPricedTools(usage, prices), prices);
  };
  const others = division?.others ?? [];
  return others.reduce(
    (sum, part) =>
      sum + costAt(part.usage, costOf(part.model, { upstream, upstreamModel: part.upstreamModel }) ?? cost),
    costAt(measured, cost),
  );
}

/** The final record of a call that has ended, or the provisional one of a call that nobody has closed yet. */
function recordOf(call: LiveCall, endCause: EndCause, charged: MeteredCharge, closedBy?: SettlementDeps): CallRecord {
  const { source, model, division } = charged;
  const { usage, costNanos: cost } = boundCharge(charged.usage, model.prices);
  if (usage !== charged.usage) call.tally.impossible ??= charged.usage;
  const modelServed = call.tally.modelServed ?? call.upstreamModel;
  return {
    rid: call.rid,
    kind: closedBy ? RecordKind.FINAL : RecordKind.PROVISIONAL,
    accountId: call.accountId,
    keyId: call.keyId,
    endpoint: call.endpoint,
    model,
    modelServed: modelServed.length > maxModelLength ? modelServed.slice(0, maxModelLength) : modelServed,
    upstream: call.upstream,
    usage,
    costNanos: cost,
    heldNanos: call.heldNanos,
    endCause,
    usageSource: source,
    startedAtMs: call.startedAtMs,
    firstByteAtMs: call.firstByteAtMs,
    endedAtMs: Date.now(),
    httpStatus: call.httpStatus,
    streamed: call.isStream,
    upstreamCostNanos: upstreamCostOf(call, charged),
    traceparent: call.trace?.traceparent ?? "",
    ...(division?.others.length && { otherModels: division.others }),
    toldUsage: tellable(call.tally.impossible),
    isLeased: closedBy !== undefined && withinLease(call.leased) !== undefined,
    relaySession: closedBy ? closedBy.relaySession : "",
    // Last, so that nothing can fail behind it and leave a hole in the numbers.
    sequence: closedBy ? closedBy.nextSequence() : 0n,
  };
}

/**
 * What decides the prices of a call that has ended: the provider's own word on its tier, for it need not have served
 * by the one that was asked for, and its own count of all input.
 */
function traitsOf({ tally, requested }: LiveCall): PriceTraits {
  const { service_tier: _, ...asked } = requested.priceFields;
  const fields = { ...asked, ...tally.priceFields };
  if (tally.serviceTier !== undefined) fields["service_tier"] = tally.serviceTier;
  if (tally.longestInputTokens !== undefined) return { fields, inputTokens: tally.longestInputTokens };
  const told = tally.usage ?? tally.inputUsage;
  if (!told) return { fields, inputTokens: requested.inputTokens };
  return { fields, inputTokens: Number(inputOf(told)) };
}

type Charge = Pick<CallRecord, "rid" | "accountId" | "keyId" | "costNanos" | "isLeased">;
type ChargeOwner = Pick<Charge, "rid" | "accountId">;

/** Tells auth-quota and JetStream of a record that the spool holds. */
function passOn(settling: SettlementDeps, charge: Charge, record: Uint8Array, onAnswered?: OnAnswered): void {
  const { rid, accountId, keyId, costNanos: charged, isLeased } = charge;
  settling.publisher.publish(record);
  tellCharge(settling, { rid, accountId, keyId, costNanos: charged, record, isLeased }, onAnswered);
}

type ToldCharge = MessageInitShape<typeof SettleSchema> & { rid: string; record: Uint8Array };
type OnAnswered = (result: Result) => void;

function tellCharge(settling: SettlementDeps, value: ToldCharge, onAnswered?: OnAnswered): void {
  settling.quota.tellThen({ operation: { case: "settle", value } }, (result) => {
    if (result.verdict === Verdict.CONFLICT) refuse(settling, value.rid, value.record);
    onAnswered?.(result);
  });
}

/** The same of a call within a lease, which its charge leaves. */
function passOnWithin(settling: SettlementDeps, { lease, ip }: LeasedCall, charge: Charge, record: Uint8Array): void {
  const { rid, accountId, keyId, costNanos: charged } = charge;
  settling.publisher.publish(record);
  const value = { rid, accountId, keyId, costNanos: charged, record, isLeased: true, leaseRid: lease.rid, ip };
  tellCharge(settling, value, (told) => noteTold(lease, ip, told));
}

/**
 * Takes a charge that auth-quota refuses for good out of the spool, so that it is told no more: once JetStream has it,
 * billing books it, or keeps it in quarantine for a person. Its hold ends with the booking, or as a forgotten one does.
 */
function refuse({ spool, publisher, refused, metrics, log }: SettlementDeps, rid: string, record: Uint8Array): void {
  if (refused.has(rid)) return;
  refused.add(rid);
  metrics.conflicts.inc();
  log.error({ rid }, "auth-quota refuses the charge of this call for good; it is left to billing");
  void publisher.publishAlone(record).then((isStored) => {
    if (!isStored) return;
    spool.confirm(rid);
    refused.delete(rid);
  });
}

/** The same; resolves when auth-quota has answered. */
export const forward = (settling: SettlementDeps, charge: Charge, record: Uint8Array): Promise<void> =>
  new Promise((resolve) => passOn(settling, charge, record, () => resolve()));

// Two regular looks.
const lateLookMs = 2_000;

/**
 * Writes a record of a call that has ended into the spool. Whoever takes over tells running calls from ended ones by
 * how long before the last record they were written down, so a process that stood still writes them down again first.
 */
function writeDown({ spool, watch }: SettlementDeps, { rid, accountId }: ChargeOwner, record: Uint8Array): void {
  if (Date.now() - watch.lookedAtMs > lateLookMs) watch.look();
  spool.append(rid, record, accountHash(accountId));
}

const tokenBuckets = usageBuckets.filter((name) => name.endsWith("Tokens"));

/** Tells the operator of a provider that counts no output of an answer that has text; it is charged as it was told. */
function checkOutput({ metrics, log }: SettlementDeps, call: LiveCall, { source, measured }: MeteredCharge): void {
  const { rid, upstream, tally, model } = call;
  const isText = model.prices.outputTokens !== undefined && tally.contentTokens > 0;
  if (source !== UsageSource.PROVIDER || !isText || outputOf(measured) > 0n) return;
  metrics.usageMismatches.inc({ upstream });
  log.warn(
    { rid, upstream, sent: Math.ceil(tally.contentTokens) },
    "the upstream counts no output of an answer with text",
  );
}

/** Tells the operator of a provider whose counts do not add up; the charge rests on the buckets all the same. */
function checkSum({ metrics, log }: SettlementDeps, { rid, upstream, tally }: LiveCall): void {
  const { usage, toldTokens, impossible } = tally;
  if (!usage || toldTokens === undefined || impossible) return;
  const sum = sumOf(usage, tokenBuckets);
  if (sum === toldTokens) return;
  metrics.usageMismatches.inc({ upstream });
  log.warn({ rid, upstream, sum: sum.toString(), told: toldTokens.toString() }, "the upstream's counts do not add up");
}

/** Tells the operator of parts that were charged at the called model's prices, for want of a row of their own. */
function checkModels({ metrics, log }: SettlementDeps, { rid, upstream }: LiveCall, { division }: MeteredCharge): void {
  if (!division?.unknown.length) return;
  metrics.unpricedModels.inc({ upstream });
  const what = { rid, upstream, models: division.unknown };
  log.error(what, "a model that is not in the catalog ran a part of the call and was charged as the called one");
}

/** Tells the operator, once, of a call whose provider told counts that cannot be. */
function checkPossible({ metrics, log }: SettlementDeps, call: LiveCall, charged: Units): void {
  const { rid, upstream, model, tally } = call;
  if (!tally.impossible) return;
  metrics.impossibleUsage.inc({ upstream });
  const words = (units: Units) => Object.fromEntries(Object.entries(units).map(([name, count]) => [name, `${count}`]));
  const what = { rid, upstream, model: model.id, told: words(tally.impossible), charged: words(charged) };
  log.error(what, "the upstream told counts that cannot be; what is possible is charged");
}

function observeHold(seconds: Histogram, { times }: LiveCall): void {
  seconds.observe((performance.now() - times.reservedAt) / 1_000);
}

/**
 * Charges a call, once, for how it ended. When this returns, the record is in the spool: that is why the end of an
 * answer may only be given to the caller afterwards, and why a caller never holds a whole answer that no ledger
 * will show. The other homes follow on their own.
 */
export function settle(settling: SettlementDeps, call: LiveCall, endCause: EndCause): void {
  if (call.endCause !== EndCause.UNSPECIFIED) return;
  call.answerEnd = endCause;
  call.endCause = causeOnBill(endCause, call.isOrphan);
  call.times.settlingAt = performance.now();
  boundTally(call.tally, call.offered);
  call.model = pricedFor(call.offered, () => traitsOf(call));
  const charged = meter(call, endCause);
  const record = recordOf(call, call.endCause, charged, settling);
  const bytes = encodeRecord(record, call.holdSecret);
  const leased = withinLease(call.leased);
  writeDown(settling, call, bytes);
  if (leased) settling.spool.noteLeased(call.rid, leased.lease);
  faultPoint("relay: record in the spool, nobody told");
  call.chargedNanos = record.costNanos;
  settling.metrics.charged.inc(Number(record.costNanos));
  if (record.costNanos > record.heldNanos) settling.metrics.overHold.inc();
  checkPossible(settling, call, record.usage);
  checkSum(settling, call);
  checkOutput(settling, call, charged);
  if (charged.source !== UsageSource.NONE) checkPriced(settling, call, charged.measured, record.costNanos);
  checkModels(settling, call, charged);
  call.times.settledAt = performance.now();
  observeHold(settling.metrics.holdSeconds.charged, call);
  if (!leased) return passOn(settling, record, bytes);
  chargeWithin(leased, record.costNanos);
  passOnWithin(settling, leased, record, bytes);
}

/**
 * Charges a call by a record that was made elsewhere: a video's, which its service wrote down with the acceptance. The
 * same bytes may come to the ledger from there too; the rid makes them one charge.
 */
export function settleGiven(settling: SettlementDeps, call: LiveCall, given: Uint8Array): void {
  if (call.endCause !== EndCause.UNSPECIFIED) return;
  const record = fromBinary(UsageRecordedSchema, given);
  call.endCause = record.endCause;
  writeDown(settling, record, given);
  faultPoint("relay: charge of a task in the spool, nobody told");
  call.upstream = record.upstream;
  call.chargedNanos = record.costNanos;
  settling.metrics.charged.inc(Number(record.costNanos));
  observeHold(settling.metrics.holdSeconds.charged, call);
  passOn(settling, record, given);
}

/** The record to book should this relay go silent now (money rule: expiry charges the last checkpoint). */
export function checkpointRecord(call: LiveCall): { costNanos: bigint; record: Uint8Array } {
  boundTally(call.tally, call.offered);
  const record = recordOf(call, EndCause.RELAY_LOST, meter(call, EndCause.RELAY_LOST));
  return { costNanos: record.costNanos, record: encodeRecord(record, call.holdSecret) };
}

/** Frees the hold of a call that no upstream was asked to serve. */
export function release(settling: SettlementDeps, call: LiveCall): void {
  if (call.endCause !== EndCause.UNSPECIFIED) return;
  call.endCause = EndCause.CLIENT_GONE;
  observeHold(settling.metrics.holdSeconds.released, call);
  if (freeWithin(call.leased)) return;
  void settling.quota.tell({ operation: { case: "release", value: { rid: call.rid, accountId: call.accountId } } });
}

const confirmAgeMs = 5_000;
const confirmAtOnce = 4_096;

/**
 * Asks what became of records that the spool holds and that nobody asked about since `beforeMs`. Booked: the spool
 * lets go. Unknown or still held: a store lost them, so they are told again. Charged but not booked: the outbox and
 * JetStream have them, wait on. Gives the number of records of which something was heard.
 */
export async function confirmBooked(
  settling: SettlementDeps,
  beforeMs = performance.now() - confirmAgeMs,
): Promise<number> {
  const { spool, quota, refused, onBooked } = settling;
  const rids = spool.unconfirmed(beforeMs, confirmAtOnce);
  const calls = rids.map((rid) => ({ rid, accountHash: spool.accountHashOf(rid), leasedTo: spool.leasedTo(rid) }));
  const states = await lookUpCalls(quota, calls);
  const lost = new Set<string>();
  let heard = 0;
  rids.forEach((rid, index) => {
    const state = states[index];
    if (state === undefined) return;
    heard += 1;
    if (state === CallState.POSTED) {
      onBooked(rid);
      return spool.confirm(rid);
    }
    spool.postpone(rid);
    if (state !== CallState.SETTLED && !refused.has(rid)) lost.add(rid);
  });
  if (lost.size === 0) return heard;
  for (const bytes of spool.read(lost).values()) {
    const { charge, record } = readCharge(settling, bytes);
    passOn(settling, charge, record);
  }
  return heard;
}

/** A record of the spool, as it may be charged: a relay of an earlier version may have left one that is impossible. */
export function readCharge(
  { log, metrics }: SettlementDeps,
  bytes: Uint8Array,
): { charge: UsageRecorded; record: Uint8Array } {
  const charge = fromBinary(UsageRecordedSchema, bytes);
  const bounded = boundedRecord(charge);
  if (!bounded) return { charge, record: bytes };
  const { rid, upstream, costNanos: chargedNanos } = bounded;
  metrics.impossibleUsage.inc({ upstream });
  log.error(
    { rid, upstream, chargedNanos: `${chargedNanos}` },
    "the spool has counts that cannot be; the hold is charged",
  );
  return { charge: bounded, record: toBinary(UsageRecordedSchema, bounded) };
}
