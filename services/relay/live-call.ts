import type { OnCallerGone } from "#shared/catalog/upstreams.ts";
import type { Span } from "@opentelemetry/api";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { beginTimes, type CallTimes } from "./call-times.ts";
import type { Model } from "./catalog/models.ts";
import type { LeasedCall } from "./leased-call.ts";
import { emptyTally, type Envelope, type Tally } from "./dialects/dialect.ts";

/** What is known of a request's use without its answer. */
export type RequestFacts = { inputTokens: number } & Pick<
  Envelope,
  "units" | "leastMediaMs" | "triesPerChoice" | "priceFields"
>;

/** What makes a call one that is traced. */
export type CallTrace = { span: Span; traceId: string; traceparent: string };

/** A call that holds money, from its admission to its charge. */
export type LiveCall = {
  rid: string;
  endpoint: string;
  accountId: string;
  keyId: string;
  /** The model as the catalog offers it, and at the prices of this call. */
  offered: Model;
  model: Model;
  /** The catalog's models, for parts of the answer that another one ran. */
  models: ReadonlyMap<string, Model> | undefined;
  isStream: boolean;
  /** What to charge for the request should the provider's count never come. */
  requested: RequestFacts;
  heldNanos: bigint;
  /** By which its records are proven; empty where auth-quota gave none. */
  holdSecret: Uint8Array;
  /** Where its hold was made within a lease. */
  leased: LeasedCall | undefined;
  /**
   * The generation of the hot store when the hold was asked for, see QuotaSession: in a later one it is restored, also
   * when its answer and the word of a loss come together.
   */
  generation: string;
  /** Name in the catalog; empty before one was asked. */
  upstream: string;
  upstreamModel: string;
  /** What becomes of the answer of that upstream should the caller leave. */
  onCallerGone: OnCallerGone;
  tally: Tally;
  startedAtMs: number;
  times: CallTimes;
  /** Undefined when it is not traced. */
  trace: CallTrace | undefined;
  firstByteAtMs: number | undefined;
  httpStatus: number;
  /** UNSPECIFIED until the call is charged or released: the mark that makes either happen once. */
  endCause: EndCause;
  /** Whether its caller left while an upstream was at work on it; see Orphans. */
  isOrphan: boolean;
  /** How its answer ended, also where the bill says that its caller had left. */
  answerEnd: EndCause;
  /** Content, in tokens, above which its answer is not read on. */
  maxContentTokens: number;
  chargedNanos: bigint;
  /** Monotonic milliseconds and nano-USD of the last checkpoint told to auth-quota; when the spool got its last. */
  checkpointAtMs: number;
  checkpointNanos: number;
  spooledAtMs: number;
  /** Whether auth-quota is being asked for a larger hold, since when, and whether it last said no. */
  isExtending: boolean;
  extendAtMs: number;
  isRefused: boolean;
  /** Since when it could not decide; 0: it could. */
  undecidedAtMs: number;
  /** Among the calls that hold money now; see ActiveSet. */
  activeIndex: number;
  /** Ends the answer from outside: the guard when money runs out, the drain when time does. */
  cut: (endCause: EndCause) => void;
  /** Tells a caller who waits for the next event that the stream lives; see STREAM_HEARTBEAT_MS. */
  beat: (silentMs: number) => void;
  /** How long the caller has not read what was written. */
  stalledMs: () => number;
  /** Keeps the upstream waiting, or lets it go on; undefined where that cannot be done. See guardStream. */
  holdBack: ((isHeld: boolean) => void) | undefined;
  /** Breaks the connection to a caller who has stopped reading. */
  hangUp: () => void;
};

export type AdmittedCall = Pick<
  LiveCall,
  | "rid"
  | "endpoint"
  | "accountId"
  | "keyId"
  | "offered"
  | "model"
  | "isStream"
  | "requested"
  | "heldNanos"
  | "holdSecret"
  | "generation"
  | "startedAtMs"
> &
  Partial<Pick<LiveCall, "times" | "trace" | "models" | "leased">>;

// One for all calls: each replaces its own when it has something to do there.
const nothingToCut = (): void => undefined;
const aborting: OnCallerGone = { action: "abort" };
const neverStalled = (): number => 0;

/** Field by field: a spread would make it another kind of object than the literal, and take three times as long. */
export function beginLiveCall(admitted: AdmittedCall): LiveCall {
  const nowMs = performance.now();
  return {
    rid: admitted.rid,
    endpoint: admitted.endpoint,
    accountId: admitted.accountId,
    keyId: admitted.keyId,
    offered: admitted.offered,
    model: admitted.model,
    models: admitted.models,
    isStream: admitted.isStream,
    requested: admitted.requested,
    heldNanos: admitted.heldNanos,
    holdSecret: admitted.holdSecret,
    leased: admitted.leased,
    generation: admitted.generation,
    startedAtMs: admitted.startedAtMs,
    times: admitted.times ?? { ...beginTimes(nowMs), reservedAt: nowMs },
    trace: admitted.trace,
    upstream: "",
    upstreamModel: "",
    onCallerGone: aborting,
    tally: emptyTally(),
    firstByteAtMs: undefined,
    httpStatus: 0,
    endCause: EndCause.UNSPECIFIED,
    isOrphan: false,
    answerEnd: EndCause.UNSPECIFIED,
    maxContentTokens: Infinity,
    chargedNanos: 0n,
    checkpointAtMs: nowMs,
    checkpointNanos: 0,
    spooledAtMs: nowMs,
    isExtending: false,
    extendAtMs: 0,
    isRefused: false,
    undecidedAtMs: 0,
    activeIndex: -1,
    cut: nothingToCut,
    beat: nothingToCut,
    stalledMs: neverStalled,
    holdBack: undefined,
    hangUp: nothingToCut,
  };
}
