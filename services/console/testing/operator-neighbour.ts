import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  BillingService,
  BusinessGrouping,
  QuarantinedRecordSchema,
  QueryBusinessRequest,
  QueryBusinessResponseSchema,
  ReplayRequest,
  ReplayResponseSchema,
  ReportSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";

type Quarantined = MessageInitShape<typeof QuarantinedRecordSchema> & { quarantineId: bigint };
type Business = MessageInitShape<typeof QueryBusinessResponseSchema>;
type Report = MessageInitShape<typeof ReportSchema>;
type Replayed = MessageInitShape<typeof ReplayResponseSchema>;

/** What tests set. */
type Script = {
  balances: Map<string, bigint>;
  /** In the order in which they came. */
  quarantine: Quarantined[];
  /** Numbers of records that cannot be booked, and why. */
  unbookable: Map<bigint, string>;
  /** Kept reports by day; "" is what changed lately. */
  reports: Map<string, Report>;
  /** What is left to refund, by call. */
  refundable: Map<string, bigint>;
  progress: { lastSequence: bigint; bookedSequence: bigint };
  /** What a replay tells; how it ends is the test's. */
  replayed: (gone: AbortSignal) => AsyncIterable<Replayed>;
  replayAsked: ReplayRequest[];
  /** Sums over all accounts by what they are grouped by, and what was asked for. */
  business: Map<BusinessGrouping, Business>;
  businessAsked: QueryBusinessRequest[];
};

/** From memory: what operators ask of billing. */
export function createOperatorNeighbour(balances: Map<string, bigint>) {
  const script: Script = {
    balances,
    quarantine: [],
    unbookable: new Map(),
    reports: new Map(),
    refundable: new Map(),
    progress: { lastSequence: 12n, bookedSequence: 12n },
    replayed: async function* () {
      yield { events: 0n, isDone: true };
    },
    replayAsked: [],
    business: new Map(),
    businessAsked: [],
  };
  const replay = (request: ReplayRequest, gone: AbortSignal): AsyncIterable<Replayed> => {
    script.replayAsked.push(request);
    return script.replayed(gone);
  };
  const businessCalls = {
    queryBusiness: async (request) => {
      script.businessAsked.push(request);
      return script.business.get(request.groupBy) ?? {};
    },
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
  const handlers = { ...businessCalls, ...quarantineCalls(script), ...reportCalls(script), ...moneyCalls(script) };
  return Object.assign(script, { handlers, replay });
}

function quarantineCalls(script: Script) {
  return {
    listQuarantine: async ({ limit, beforeQuarantineId, onlyOpen }) => {
      const records = script.quarantine.filter(
        ({ quarantineId, isOpen }) =>
          (beforeQuarantineId === 0n || quarantineId < beforeQuarantineId) && (!onlyOpen || isOpen === true),
      );
      return { records: records.toReversed().slice(0, limit) };
    },
    retryQuarantine: async ({ quarantineIds }) => ({
      records: quarantineIds.map((quarantineId) => {
        const reason = script.unbookable.get(quarantineId) ?? "";
        const record = script.quarantine.find((one) => one.quarantineId === quarantineId);
        if (record) record.isOpen = reason !== "";
        return { quarantineId, isBooked: reason === "", reason };
      }),
    }),
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}

function reportCalls({ reports, progress }: Script) {
  return {
    getReport: async ({ day }) => {
      const report = reports.get(day);
      if (!report) throw new ServiceError("not_found", `no report of ${day} is kept`);
      return { report };
    },
    reconcile: async ({ day }) => ({ report: reports.get(day) ?? { day, lines: [] } }),
    getProgress: async () => progress,
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}

function moneyCalls({ balances, refundable }: Script) {
  const booked = new Map<string, string>();
  return {
    listLowBalances: async ({ belowNanos, limit }) => {
      const low = [...balances].filter(([, balanceNanos]) => balanceNanos < belowNanos);
      const accounts = low
        .toSorted(([, a], [, b]) => (a < b ? -1 : 1))
        .map(([accountId, balanceNanos]) => ({ accountId, balanceNanos }));
      return { accounts: accounts.slice(0, limit), total: BigInt(accounts.length) };
    },
    refund: async ({ accountId, rid, amountNanos, refundId, reason }) => {
      const left = refundable.get(rid) ?? 0n;
      const content = [accountId, rid, amountNanos, reason].join(" ");
      const line = { lineId: `line of refund ${refundId}`, amountNanos: amountNanos || left };
      if (booked.has(refundId)) {
        if (booked.get(refundId) !== content) throw new ServiceError("already_exists", "other content");
        return { line: { ...line, amountNanos }, balanceNanos: balances.get(accountId) ?? 0n };
      }
      if (left === 0n || amountNanos > left) throw new ServiceError("failed_precondition", "nothing is left");
      booked.set(refundId, content);
      refundable.set(rid, left - line.amountNanos);
      const balanceNanos = (balances.get(accountId) ?? 0n) + line.amountNanos;
      balances.set(accountId, balanceNanos);
      return { line, balanceNanos };
    },
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}
