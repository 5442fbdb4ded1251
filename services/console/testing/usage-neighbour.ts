import { hash } from "node:crypto";
import { once } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { v7 } from "uuid";
import {
  CallResult,
  LedgerLineSchema,
  LineKind,
  UsageGrouping,
  type BillingService,
  type LedgerLine,
  type UsageSum,
  UsageSumSchema,
} from "#proto/billing/v1/billing_pb.ts";
import {
  EndCause,
  RecordKind,
  UsageRecordedSchema,
  UsageSource,
  type UsageRecorded,
} from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { ServerStreamHandlers } from "#shared/grpc/stream.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { costNanos, usageBuckets, type Units } from "#shared/money/pricing.ts";

type State = {
  /** All lines in the order of their booking. */
  lines: LedgerLine[];
  /** What was asked, by method: the last request. */
  received: Map<string, object>;
  /** Says so of calls, statements and exports, as for days that are in the archive. */
  isArchived: boolean;
  /** Whether an export says nothing more after the lines that there are, or breaks off. */
  isStalled: boolean;
  isBroken: boolean;
  /** How many exports ended because the caller had gone. */
  gone: number;
};

/** What a test says of a call. */
type CallInit = Exclude<MessageInitShape<typeof UsageRecordedSchema>, UsageRecorded>;

const isBetween = (id: string, from: Timestamp | undefined, until: Timestamp | undefined): boolean =>
  atOf(id) >= (from ? timestampMs(from) : 0) && atOf(id) < (until ? timestampMs(until) : 0);

/** Milliseconds in a UUIDv7. */
const atOf = (id: string): number => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
const dayOf = (id: string): string => new Date(atOf(id)).toISOString().slice(0, 10);

function groupOf({ rid, modelRequested, keyId }: UsageRecorded, groupBy: UsageGrouping): string {
  if (groupBy === UsageGrouping.DAY) return dayOf(rid);
  if (groupBy === UsageGrouping.MODEL) return modelRequested;
  return groupBy === UsageGrouping.KEY ? keyId : "";
}

const isWhole = ({ endCause }: UsageRecorded): boolean =>
  endCause === EndCause.COMPLETE || endCause === EndCause.CLIENT_GONE;

function add(sum: UsageSum, call: UsageRecorded, amountNanos: bigint): void {
  sum.calls += 1n;
  sum.chargedNanos -= amountNanos;
  if (!isWhole(call)) sum.failedCalls += 1n;
  for (const bucket of usageBuckets) sum.usage![bucket] += call.usage?.[bucket] ?? 0n;
}

function readCalls(state: State) {
  const { lines, received } = state;
  return {
    queryUsage: async (request) => {
      received.set("queryUsage", request);
      const sums = new Map<string, UsageSum>();
      for (const { accountId, usage, amountNanos } of lines) {
        if (!usage || accountId !== request.accountId || !isBetween(usage.rid, request.from, request.until)) continue;
        if (request.keyId !== "" && request.keyId !== usage.keyId) continue;
        if (request.model !== "" && request.model !== usage.modelRequested) continue;
        const group = groupOf(usage, request.groupBy);
        const sum = sums.get(group) ?? create(UsageSumSchema, { group, usage: {} });
        add(sum, usage, amountNanos);
        sums.set(group, sum);
      }
      return { sums: [...sums.values()].toSorted((a, b) => (a.group < b.group ? -1 : 1)) };
    },
    getCall: async ({ rid, accountId }) => {
      if (state.isArchived) throw new ServiceError("failed_precondition", "the lines of 2026-01-01 are detached");
      const found = lines.filter((line) => line.rid === rid && (accountId === "" || line.accountId === accountId));
      if (!found[0]) throw new ServiceError("not_found", "no such call");
      return { accountId: found[0].accountId, lines: found };
    },
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}

function readLedger(state: State, nowMs: () => number) {
  const { lines, received } = state;
  return {
    listLedgerLines: async ({ accountId, kind, beforeLineId, limit, rid, keyId, model, result }) => {
      const isWanted = ({ usage }: LedgerLine): boolean =>
        (keyId === "" || usage?.keyId === keyId) &&
        (model === "" || usage?.modelRequested === model) &&
        (result === 0 || (usage?.endCause === EndCause.COMPLETE) === (result === CallResult.WHOLE));
      const own = lines.filter((line) => line.accountId === accountId && (kind === 0 || line.kind === kind));
      const older = own.filter((line) => beforeLineId === "" || line.lineId < beforeLineId);
      const newest = older.filter((line) => (rid === "" || line.rid === rid) && isWanted(line)).toSorted(byNewest);
      const page = newest.slice(0, limit || 100);
      return { lines: page, nextBeforeLineId: newest.length > page.length ? (page.at(-1)?.lineId ?? "") : "" };
    },
    getStatement: async (request) => {
      received.set("getStatement", request);
      const { accountId, from, until } = request;
      if (state.isArchived) throw new ServiceError("failed_precondition", "partition of 2026-01-01 is detached");
      const own = lines.filter((line) => line.accountId === accountId);
      const booked = own.filter(({ lineId }) => isBetween(lineId, from, until));
      const earlier = own.filter(({ lineId }) => from && atOf(lineId) < timestampMs(from));
      const sums = Map.groupBy(booked, ({ kind }) => kind);
      return {
        openingBalanceNanos: sumOf(earlier),
        closingBalanceNanos: sumOf(earlier) + sumOf(booked),
        sums: [...sums].map(([kind, some]) => ({ kind, lines: BigInt(some.length), amountNanos: sumOf(some) })),
        isFinal: until !== undefined && timestampMs(until) < nowMs(),
      };
    },
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}

const byNewest = (a: LedgerLine, b: LedgerLine): number => (a.lineId < b.lineId ? 1 : -1);
const sumOf = (lines: LedgerLine[]): bigint => lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);

/** From memory: what was used and booked: the pages about usage, calls and the ledger. */
export function createUsageNeighbour(nowMs: () => number) {
  const state: State = {
    lines: [],
    received: new Map(),
    isArchived: false,
    isStalled: false,
    isBroken: false,
    gone: 0,
  };
  const exportLines: ServerStreamHandlers<typeof BillingService>["exportLines"] = async function* (request, gone) {
    state.received.set("exportLines", request);
    if (state.isArchived) throw new ServiceError("failed_precondition", "partition of 2026-01-01 is detached");
    const { accountId, fromDay, untilDay } = request;
    const inDays = (id: string): boolean => dayOf(id) >= fromDay && dayOf(id) < untilDay;
    const own = state.lines.filter((line) => line.accountId === accountId && inDays(line.usage?.rid ?? line.lineId));
    for (const line of own) yield { lines: [line] };
    if (state.isBroken) throw new ServiceError("unavailable", "10.1.2.3 is away");
    if (!state.isStalled) return;
    await once(gone, "abort");
    state.gone += 1;
  };
  // The same in each run, for pictures that are compared.
  let ids = 0;
  const idAt = (msecs: number): string => {
    ids += 1;
    return v7({ msecs, random: hash("sha256", String(ids), "buffer").subarray(0, 16) });
  };
  /** Books a line at a time and tells its id. */
  const book = (atMs: number, line: MessageInitShape<typeof LedgerLineSchema>): string => {
    const made = create(LedgerLineSchema, { lineId: idAt(atMs), bookedAt: timestampFromMs(atMs), ...line });
    state.lines.push(made);
    return made.lineId;
  };
  /** Books the charge of a call that began then and took 2 s, and tells its rid. */
  const bookCall = (accountId: string, atMs: number, change: CallInit = {}) => {
    const rid = idAt(atMs);
    const usage = create(UsageRecordedSchema, { ...defaultCall(rid, accountId, atMs), ...change });
    usage.costNanos = costNanos((usage.usage ?? {}) as Units, (usage.unitPriceNanos ?? {}) as Units);
    book(atMs + 3_000, { accountId, kind: LineKind.CHARGE, amountNanos: -usage.costNanos, rid, usage });
    return rid;
  };
  return Object.assign(state, {
    handlers: { ...readCalls(state), ...readLedger(state, nowMs) },
    exportLines,
    book,
    bookCall,
  });
}

const defaultCall = (rid: string, accountId: string, atMs: number): CallInit => ({
  rid,
  kind: RecordKind.FINAL,
  accountId,
  keyId: "key_0",
  endpoint: "/v1/chat/completions",
  modelRequested: "chat-large",
  modelServed: "chat-large-2026-11",
  upstream: "first-upstream",
  usage: { inputTokens: 12n, outputTokens: 34n },
  unitPriceNanos: { inputTokens: 2_500_000_000n, outputTokens: 10_000_000_000n },
  priceVersion: "chat-large@2026-11-01",
  heldNanos: 5_000_000n,
  endCause: EndCause.COMPLETE,
  usageSource: UsageSource.PROVIDER,
  startedAt: timestampFromMs(atMs),
  firstByteAt: timestampFromMs(atMs + 250),
  endedAt: timestampFromMs(atMs + 2_000),
  httpStatus: 200,
  streamed: true,
  relaySession: "relay-session-1",
  upstreamCostNanos: 123_000n,
});
