import { Verdict, type CallState } from "#proto/authquota/v1/authquota_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { holdSecret, isHoldSecret, isProven, leaseSecrets } from "#shared/money/hold-proof.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Identities } from "../hot/identity.ts";
import type { Load, Owner } from "../hot/load.ts";
import type { Metrics } from "../metrics.ts";
import {
  asProven,
  MalformedOperation,
  prepare,
  writeOperation,
  type Caller,
  type PreparedOperation,
} from "./operations.ts";
import { createDecisionLog } from "./log-decisions.ts";
import type { Result, SessionOperation } from "./session-wire.ts";
import { answerCodes, need, type HotAnswer, type HotOperation, type HotRun, type HotStore } from "../store/hot.ts";
import { traceReserves } from "./trace-reserves.ts";

/** The decision on a batch: one result per operation, and the generation and time of the hot store. */
export type BatchDecision = { results: Result[]; generation: string; timeMs: number; recalledLeases: string[] };

/** Decides a batch. Never rejects. */
export type Decide = (relaySession: string, operations: SessionOperation[]) => Promise<BatchDecision>;

export type DecideDeps = {
  hot: HotStore;
  identities: Identities;
  load: Load;
  /** The first makes the secrets of holds; all of them show that a hold was granted. */
  proofKeys: readonly [Uint8Array, ...Uint8Array[]];
  metrics: Metrics;
  log: Logger;
};

/** An operation on its way to a result. */
type Task = { prepared: PreparedOperation; caller: Caller; result: Result | undefined };

// A cold key takes three rounds: its identity, its data, the decision. The rest is a margin.
const maxRounds = 6;

/**
 * Creates the function that decides batches. All operations of a batch go to Redis in one round; those whose data is
 * missing there are decided in a further round, once it is loaded, while their batch waits.
 */
export function createDecide(given: DecideDeps): Decide {
  const deps = { ...given, recordSkew: createSkewRecorder(given) };
  const logDecisions = createDecisionLog(given.log);
  return async (relaySession, operations) => {
    deps.metrics.batch(operations.length);
    const startedAtMs = Date.now();
    const tasks = operations.map((operation) => toTask(deps, operation));
    const recalledLeases = await decideAll(deps, relaySession, tasks);
    const results = tasks.map((task) => {
      const result = task.result ?? unavailable;
      deps.metrics.verdict(task.prepared.name, result.verdict);
      return result;
    });
    traceReserves(operations, results, startedAtMs);
    logDecisions(operations, results, Date.now() - startedAtMs);
    return { results, generation: deps.hot.generation(), timeMs: deps.hot.timeMs(), recalledLeases };
  };
}

const unavailable: Result = { verdict: Verdict.UNAVAILABLE };

/** Records a call that was not decided because the time in its id is too far from Redis' clock. */
type RecordSkew = (relaySession: string, aheadMs: number) => void;
type DecideContext = DecideDeps & { recordSkew: RecordSkew };

// Affects every call of a relay, and a line for each would bury all others.
const skewLineMs = 10_000;

function createSkewRecorder({ metrics, log }: DecideDeps): RecordSkew {
  const toldAt = new Map<string, number>();
  return (relaySession, aheadMs) => {
    metrics.skewed();
    const now = performance.now();
    for (const [session, at] of toldAt) if (now - at >= skewLineMs) toldAt.delete(session);
    if (toldAt.has(relaySession)) return;
    toldAt.set(relaySession, now);
    log.error({ relaySession, aheadMs }, "clock skew between a relay and Redis too large: refusing its calls");
  };
}

function toTask(deps: DecideDeps, request: SessionOperation): Task {
  try {
    const prepared = prepare(request);
    if (request.name === "restore" && !isGranted(deps, request)) return refuseUnproven(deps, prepared);
    const identity = prepared.keyHash === undefined ? null : deps.identities.recall(prepared.keyHash);
    return { prepared, caller: { ...callerOf(identity), isIpCounted: false }, result: undefined };
  } catch (error) {
    if (!(error instanceof MalformedOperation)) throw error;
    const { name } = request;
    deps.metrics.conflict(name, "malformed");
    deps.log.error({ operation: name, problem: error.message }, "malformed operation from a relay");
    const prepared: PreparedOperation = { name, request, keyHash: undefined, ridMs: 0, operation: [""] };
    return { prepared, caller: nobody, result: { verdict: Verdict.CONFLICT } };
  }
}

/** Whether a relay shows that auth-quota has granted the hold: by its secret, or by a record that is proven by it. */
function isGranted({ proofKeys }: DecideDeps, request: SessionOperation): boolean {
  return isHoldSecret(proofKeys, request, request.holdSecret) || isProven(proofKeys, request, request.record);
}

/** What a relay tells of a hold that was never granted is forged, or of another installation's keys. */
function refuseUnproven({ metrics, log }: DecideDeps, prepared: PreparedOperation): Task {
  const { name, request } = prepared;
  metrics.conflict(name, "unproven");
  log.error({ rid: request.rid, operation: name }, "a relay tells of a hold that it cannot prove");
  return { prepared, caller: nobody, result: { verdict: Verdict.CONFLICT } };
}

const nobody: Caller = { keyId: "", accountId: "", isIpCounted: false };

function callerOf(identity: Owner | null | undefined): Owner {
  if (identity === undefined) return { keyId: "?", accountId: "" };
  return identity ?? { keyId: "", accountId: "" };
}

/** Decides all tasks; gives the leases that the relay is to give back. */
async function decideAll(deps: DecideContext, relaySession: string, tasks: Task[]): Promise<string[]> {
  let recalledLeases: string[] = [];
  let open = tasks.filter((task) => !task.result);
  let loaded: HotOperation[] = [];
  // An empty batch still shows that the relay is alive.
  for (let round = 0; round < maxRounds && (round === 0 || open.length > 0); round += 1) {
    const run = await applyTimed(deps, relaySession, [...loaded, ...open.map(writeTask)]);
    if (!run) break;
    const { answers } = run;
    ({ recalledLeases } = run);
    const lacking: MissingData[] = [];
    open.forEach((task, index) => {
      const answer = answers[loaded.length + index];
      if (answer?.code === answerCodes.skewed) {
        task.result = unavailable;
        deps.recordSkew(relaySession, answer.number);
      } else if (!answer || !takeAnswer(deps, task, answer)) lacking.push({ task, answer });
    });
    // Ending a large session takes many rounds, each of which makes progress.
    if (lacking.some(({ answer }) => answer?.code === answerCodes.more)) round = 0;
    loaded = await loadMissing(deps, lacking);
    open = lacking.map(({ task }) => task).filter((task) => !task.result);
  }
  return recalledLeases;
}

const writeTask = ({ prepared, caller }: Task): HotOperation => writeOperation(prepared, caller);

async function applyTimed(
  { hot, metrics, log }: DecideDeps,
  relaySession: string,
  operations: HotOperation[],
): Promise<HotRun | undefined> {
  const startedAt = performance.now();
  try {
    const run = await hot.applyFor(relaySession, operations);
    metrics.redis((performance.now() - startedAt) / 1_000, true);
    faultPoint("auth-quota: decided in Redis, not answered");
    return run;
  } catch (error) {
    metrics.redis((performance.now() - startedAt) / 1_000, false);
    log.error({ err: error, operations: operations.length }, "Redis did not answer, outcome unknown");
    return undefined;
  }
}

/** Turns an answer of the script into the task's result; false when the script must run again. */
function takeAnswer(deps: DecideDeps, task: Task, answer: HotAnswer): boolean {
  if (answer.code === answerCodes.need || answer.code === answerCodes.more) return false;
  const { prepared } = task;
  if (answer.code === answerCodes.concurrency) deps.metrics.concurrencyRefused();
  task.result = toResult(deps, task, answer);
  if (answer.code === Verdict.CONFLICT) {
    deps.metrics.conflict(prepared.name, "content");
    deps.log.error({ rid: prepared.request.rid, operation: prepared.name }, "call id reused with different content");
  }
  return true;
}

function toResult({ proofKeys }: DecideDeps, { prepared, caller }: Task, { code, number, text }: HotAnswer): Result {
  // A relay that does not know a verdict must not take it for a yes.
  const verdict = code === answerCodes.concurrency ? Verdict.ACCOUNT_RATE : (code as Verdict);
  switch (prepared.name) {
    case "authorize":
    case "reserve": {
      const result: Result = { verdict, accountId: caller.accountId, keyId: caller.keyId };
      if (verdict === Verdict.IP_RATE) result.retryAfterSeconds = number;
      else if (prepared.name === "reserve") {
        result.heldNanos = number;
        if (verdict === Verdict.OK)
          result.holdSecret = holdSecret(proofKeys[0], { rid: prepared.request.rid, ...caller });
      } else if (text !== "") result.models = text.split("\n");
      // While the caller is unknown, there is no key to name.
      if (caller.keyId === "?") result.keyId = "";
      return result;
    }
    case "lease":
      return verdict === Verdict.OK && number > 0
        ? leaseResult(proofKeys[0], prepared, caller, { number, text })
        : { verdict };
    case "draw":
      return { verdict, retryAfterSeconds: number };
    case "extend":
    case "restore":
      return { verdict, heldNanos: number };
    case "checkpoint":
      return { verdict, checkpointNanos: number };
    case "lookup":
      return { verdict, state: number as CallState };
    case "lookupMany":
      // A digit for each call.
      return { verdict, states: Buffer.from(text, "latin1").map((digit) => digit - 48) as Buffer };
    default:
      return { verdict };
  }
}

/** A granted lease by the words of the script: calls, how long it lasts, the rate of addresses; then the models. */
function leaseResult(
  proofKey: Uint8Array,
  { ridMs }: PreparedOperation,
  { accountId, keyId }: Caller,
  { number, text }: Pick<HotAnswer, "number" | "text">,
): Result {
  const [head = "", ...models] = text.split("\n");
  const [calls = 0, lastsMs = 0, ipPerMinute = 0] = head.split(" ").map(Number);
  const secrets = leaseSecrets(proofKey, { accountId, keyId }, ridMs);
  return {
    verdict: Verdict.OK,
    accountId,
    keyId,
    heldNanos: number,
    calls,
    lastsMs,
    ipPerMinute,
    models: models.filter((model) => model !== ""),
    holdSecret: secrets,
  };
}

type MissingData = { task: Task; answer: HotAnswer | undefined };

/** Loads missing data; tasks for which that fails become unavailable. Never rejects. */
async function loadMissing(deps: DecideDeps, lacking: MissingData[]): Promise<HotOperation[]> {
  const brought = await Promise.all(
    lacking.map(async ({ task, answer }) => {
      try {
        return await loadFor(deps, task, answer);
      } catch (error) {
        deps.log.error({ err: error, rid: task.prepared.request.rid }, "failed to load data for a decision");
        task.result = unavailable;
        return [];
      }
    }),
  );
  // Many calls may miss the same key.
  return [...new Map(brought.flat().map((operation) => [operation.join(" "), operation])).values()];
}

async function loadFor(deps: DecideDeps, task: Task, answer: HotAnswer | undefined): Promise<HotOperation[]> {
  if (answer?.code !== answerCodes.need || answer.number === 0) return [];
  if (answer.number === need.proof) {
    if (isGranted(deps, task.prepared.request)) task.prepared = asProven(task.prepared);
    else task.result = refuseUnproven(deps, task.prepared).result;
    return [];
  }
  // The address was counted before the data was found missing.
  task.caller = { ...task.caller, isIpCounted: true };
  if (answer.number === need.identity) {
    const identity = await deps.identities.lookUp(task.prepared.keyHash ?? "");
    task.caller = { ...callerOf(identity), isIpCounted: true };
    return [];
  }
  const [accountId = "", keyId = ""] = answer.text === "" ? [] : answer.text.split(" ");
  return deps.load(answer.number, answer.text === "" ? task.caller : { accountId, keyId });
}
