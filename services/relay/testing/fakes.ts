import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { OperationSchema, ResultSchema, Verdict, type Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { createLog, type Logger } from "#shared/process/log.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createRid } from "#shared/money/rid.ts";
import type { Model } from "../catalog/models.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { dialectNames, type DialectName, type Envelope } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { beginLiveCall, type LiveCall } from "../live-call.ts";
import { createMetrics } from "../metrics.ts";
import type { Publisher } from "../charge/publish.ts";
import type { QuotaSession } from "../charge/quota-session.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import type { LeasePayer, Spool } from "../charge/spool.ts";
import type { Threads } from "../threads/threads.ts";

/** A log that keeps its lines for the test to read. */
export function listeningLog(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  return { log: createLog("test", "debug", { write }), lines };
}

/** An upstream of the catalog that nobody serves. */
export function upstreamOf(changes: Partial<Upstream> = {}): Upstream {
  return {
    id: changes.name ?? "somewhere",
    name: "somewhere",
    baseUrl: new URL("https://api.internal.example:8443/base"),
    dialects: ["openai-chat", "anthropic-messages"],
    credential: "secret-of-ours",
    headers: [],
    proxy: undefined,
    tls: undefined,
    connectTimeoutMs: 1_000,
    firstByteTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
    totalTimeoutMs: 60_000,
    maxConcurrent: 4,
    hasResponsesSocket: false,
    onCallerGone: { action: "drain", timeoutMs: 60_000, maxOutputTokens: 8_192 },
    openAfterFailures: 3,
    coolsDown: true,
    ...changes,
  };
}

/** A model at 1 USD per million tokens in and 2 USD out. */
export function modelOf(changes: Partial<Model> = {}): Model {
  return {
    id: "m",
    ownedBy: "somebody",
    createdAtSeconds: 0,
    routes: [{ upstream: upstreamOf(), model: "m-upstream", priority: 0, weight: 0 }],
    contextTokens: 100_000,
    maxOutputTokens: 10_000,
    reserveOutputTokens: 1_000,
    dialects: new Set(dialectNames),
    variants: [],
    quirks: new Set(),
    priceVersion: "v1",
    prices: { inputTokens: 1_000_000_000n, outputTokens: 2_000_000_000n, reasoningTokens: 2_000_000_000n },
    ...changes,
  };
}

/** A request body as its dialect reads it. */
export function envelopeOf(fields: object = {}, dialect: DialectName = "openai-chat"): Envelope {
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [], ...fields }));
  return dialects[dialect].readEnvelope(readJsonBody(body, dialects[dialect].mediaPlaces), "m");
}

/** A call that holds 1 USD. */
export function liveCallOf(changes: Partial<LiveCall> = {}): LiveCall {
  const call = beginLiveCall({
    generation: "1",
    rid: createRid(),
    endpoint: "/v1/chat/completions",
    accountId: "acct_1",
    keyId: "key_1",
    offered: changes.offered ?? changes.model ?? modelOf(),
    model: modelOf(),
    isStream: true,
    requested: { inputTokens: 100, units: {}, priceFields: {} },
    heldNanos: 1_000_000_000n,
    holdSecret: new Uint8Array(),
    startedAtMs: Date.now(),
  });
  return { ...call, upstream: "somewhere", upstreamModel: "m-upstream", httpStatus: 200, ...changes };
}

type ResultInit = MessageInitShape<typeof ResultSchema>;
type Case = Operation["operation"]["case"];

/** A session that answers as the test says, at once or later, and keeps what it was asked. */
export type ScriptedQuota = QuotaSession & {
  /** What auth-quota is from now on heard to remember. */
  setGeneration: (generation: string) => void;
  setMaintenance: (isMaintenance: boolean) => void;
  /** From now on auth-quota is one that takes LookupMany. */
  setHasLookupMany: () => void;
  operations: Operation["operation"][];
  /** The values of all operations of one kind, in order. */
  of: <C extends Case>(name: C) => Extract<Operation["operation"], { case: C }>["value"][];
};

export function scriptedQuota(
  answer: (operation: Operation["operation"]) => ResultInit | Promise<ResultInit> = () => ({}),
): ScriptedQuota {
  const operations: Operation["operation"][] = [];
  let generation = "1";
  let isMaintenance = false;
  let hasLookupMany = false;
  const take = async (init: MessageInitShape<typeof OperationSchema>) => {
    const { operation } = create(OperationSchema, init);
    operations.push(operation);
    const granted = operation.case === "extend" ? { heldNanos: operation.value.totalNanos } : {};
    return create(ResultSchema, { verdict: Verdict.OK, ...granted, ...(await answer(operation)) });
  };
  return {
    operations,
    of: <C extends Case>(name: C) =>
      operations.flatMap((operation) => (operation.case === name ? [operation.value] : [])) as never,
    ask: take,
    tell: take,
    tellThen: (init, onAnswer) => void take(init).then(onAnswer),
    isConnected: () => true,
    isReachable: () => true,
    generation: () => generation,
    setGeneration: (next) => void (generation = next),
    isMaintenance: () => isMaintenance,
    hasLookupMany: () => hasLookupMany,
    setHasLookupMany: () => void (hasLookupMany = true),
    setMaintenance: (next) => void (isMaintenance = next),
    clockAheadMs: () => 0,
    onRecalled: () => undefined,
    queued: () => 0,
    hasRoom: () => true,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

type MemorySpool = Spool & { records: Map<string, Uint8Array>; checkpoints: Map<string, Uint8Array> };

/** A spool in memory. */
export function memorySpool(changes: Partial<Spool> = {}): MemorySpool {
  const records = new Map<string, Uint8Array>();
  const checkpoints = new Map<string, Uint8Array>();
  const postponed = new Set<string>();
  const hashes = new Map<string, number | undefined>();
  const leased = new Map<string, LeasePayer>();
  return {
    records,
    checkpoints,
    append: (rid, record, accountHash) => {
      records.set(rid, record);
      hashes.set(rid, accountHash);
    },
    accountHashOf: (rid) => hashes.get(rid),
    noteLeased: (rid, payer) => void leased.set(rid, payer),
    leasedTo: (rid) => leased.get(rid),
    checkpoint: (rid, record) => void checkpoints.set(rid, record),
    unconfirmed: (_beforeMs, limit) => [...records.keys()].filter((rid) => !postponed.has(rid)).slice(0, limit),
    postpone: (rid) => void postponed.add(rid),
    read: (rids) => new Map([...records].filter(([rid]) => rids.has(rid))),
    files: () => [],
    recordsIn: () => [],
    confirm: (rid) => void records.delete(rid),
    adopt: () => new Map(),
    openRecords: () => records.size,
    oldestMs: () => 0,
    bytes: () => 0,
    problem: () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
    ...changes,
  };
}

type Parts = {
  quota?: QuotaSession;
  spool?: Spool;
  publish?: Publisher["publish"];
  publishAlone?: Publisher["publishAlone"];
  log?: Logger;
};

/** Stands for threads where nothing is large. */
export const noThreads: Threads = {
  open: () => {
    throw new Error("something is large after all");
  },
  waiting: () => 0,
  keepUp: () => true,
  [Symbol.asyncDispose]: async () => undefined,
};

/** What settling needs, with nothing behind it but the parts given. */
export function settlingOf({ quota, spool, publish, publishAlone, log }: Parts = {}): SettlementDeps {
  let sequence = 0n;
  return {
    relaySession: "session-1",
    spool: spool ?? memorySpool(),
    quota: quota ?? scriptedQuota(),
    publisher: {
      publish: publish ?? (() => undefined),
      publishAlone: publishAlone ?? (async () => true),
      waiting: () => 0,
      oldestMs: () => 0,
      drain: async () => undefined,
      [Symbol.asyncDispose]: async () => undefined,
    },
    metrics: createMetrics(createRegistry("test")),
    log: log ?? listeningLog().log,
    nextSequence: () => sequence++,
    refused: new Set(),
    onBooked: () => undefined,
    watch: { lookedAtMs: Infinity, look: () => undefined },
  };
}
