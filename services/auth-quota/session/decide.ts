import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { isHoldSecret, isProven } from "#shared/money/hold-proof.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Identities } from "../hot/identity.ts";
import type { Load } from "../hot/load.ts";
import type { Moves } from "../hot/moves.ts";
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
import { createContacts, type Contact } from "./contacts.ts";
import { divide, mergeParts } from "./divide.ts";
import { toResult } from "./results.ts";
import { answerCodes, need, type HotAnswer, type HotOperation, type HotRun, type Owner } from "../store/hot.ts";
import type { Shard, Shards } from "../store/shards.ts";
import type { Task } from "./task.ts";
import { traceReserves } from "./trace-reserves.ts";

/** The decision on a batch: one result per operation, and the generation and time of the hot store. */
export type BatchDecision = {
  results: Result[];
  generation: string;
  timeMs: number;
  recalledLeases: readonly string[];
};

/** Decides a batch. Never rejects. */
export type Decide = (relaySession: string, operations: SessionOperation[]) => Promise<BatchDecision>;

export type DecideDeps = {
  shards: Shards;
  identities: Identities;
  load: Load;
  moves: Pick<Moves, "look" | "isMoving">;
  /** The first makes the secrets of holds; all of them show that a hold was granted. */
  proofKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** How long leases last; see leaseMsOf(). */
  leaseMs: number;
  metrics: Metrics;
  log: Logger;
};

// A cold key takes three rounds: its identity, its data, the decision. The rest is a margin.
const maxRounds = 6;

/**
 * Creates the function that decides batches. All operations of a batch go to Redis in one round, those of each shard in
 * one run; those whose data is missing there are decided in a further round, once it is loaded, while their batch
 * waits.
 */
export function createDecide(given: DecideDeps): Decide {
  const { shards } = given;
  const contacts = createContacts(shards);
  const recordSkew = createSkewRecorder(given);
  const logDecisions = createDecisionLog(given.log);
  return async (relaySession, operations) => {
    const deps: BatchContext = { ...given, recordSkew, relaySession, contact: contacts.of(relaySession) };
    deps.metrics.batch(operations.length);
    const startedAtMs = Date.now();
    const tasks = operations.map((operation) => toTask(deps, operation));
    await decideAll(deps, tasks);
    const results = tasks.map((task) => {
      const result = task.result ?? (task.parts ? mergeParts(task.prepared, task.parts) : unavailable);
      deps.metrics.verdict(task.prepared.name, result.verdict);
      return result;
    });
    traceReserves(operations, results, startedAtMs);
    logDecisions(operations, results, Date.now() - startedAtMs);
    return {
      results,
      generation: shards.generation(),
      timeMs: shards.timeMs(),
      recalledLeases: deps.contact.recalledLeases(),
    };
  };
}

const unavailable: Result = { verdict: Verdict.UNAVAILABLE };

/** Records a call that was not decided because the time in its id is too far from Redis' clock. */
type RecordSkew = (relaySession: string, aheadMs: number) => void;
type BatchContext = DecideDeps & { recordSkew: RecordSkew; relaySession: string; contact: Contact };

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
    const task: Task = { prepared, caller: { ...callerOf(identity), isIpCounted: false }, result: undefined };
    const parts = divide(deps.shards, task);
    return parts ? { ...task, parts } : task;
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

/** Decides all tasks, and has the relay heard in every shard about once a second, whomever its calls concern. */
async function decideAll(deps: BatchContext, tasks: readonly Task[]): Promise<void> {
  const open = tasks.flatMap((task) => task.parts ?? task).filter((task) => !task.result);
  // An empty batch still shows that the relay is alive.
  if (open.length === 0) await Promise.all(deps.shards.all.map((shard) => applyTimed(deps, shard, [])));
  else await decideTasks(deps, open);
  for (const shard of deps.contact.unheard()) void applyTimed(deps, shard, []);
}

const isUnknown = ({ caller }: Task): boolean => caller.keyId === "?";

/** Where a task is decided. A caller who is not known yet is first counted where its address is. */
function shardOf({ shards }: DecideDeps, { prepared, caller, shard }: Task): Shard {
  if (shard || shards.all.length === 1) return shard ?? shards.all[0];
  const { keyHash, request } = prepared;
  if (keyHash === undefined) return shards.of(request.accountId);
  return shards.of(caller.accountId === "" ? request.ip : caller.accountId);
}

async function decideTasks(deps: BatchContext, tasks: readonly Task[]): Promise<void> {
  const isDivided = deps.shards.all.length > 1;
  // Nothing is counted of it, so no shard need be asked before it is known whose it is.
  const isNameless = (task: Task): boolean => isDivided && isUnknown(task) && task.prepared.request.ip === "";
  const nameless = tasks.filter(isNameless);
  const named = nameless.length === 0 ? tasks : tasks.filter((task) => !isNameless(task));
  const tasksOf = Map.groupBy(named, (task) => shardOf(deps, task));
  const deciding = [...tasksOf].map(async ([shard, own]) => {
    const moved = await decideOn(deps, shard, own);
    if (moved.length > 0) await decideTasks(deps, moved);
  });
  if (nameless.length > 0) deciding.push(identify(deps, nameless).then((known) => decideTasks(deps, known)));
  await Promise.all(deciding);
}

/** Decides tasks in one shard; gives those that turned out to be of another one. */
async function decideOn(deps: BatchContext, shard: Shard, tasks: Task[]): Promise<Task[]> {
  const isDivided = deps.shards.all.length > 1;
  const moved: Task[] = [];
  let open = tasks;
  let loaded: HotOperation[] = [];
  for (let round = 0; round < maxRounds && open.length > 0; round += 1) {
    const run = await applyTimed(deps, shard, [...loaded, ...open.map((task) => writeTask(deps, task))]);
    // Of a caller who is not known yet, another shard may be the right one.
    if (!run) return isDivided ? [...moved, ...(await identify(deps, open.filter(isUnknown)))] : moved;
    const lacking: MissingData[] = [];
    open.forEach((task, index) => {
      const answer = run.answers[loaded.length + index];
      if (answer?.code === answerCodes.skewed) {
        task.result = unavailable;
        deps.recordSkew(deps.relaySession, answer.number);
      } else if (isDivided && isUnknown(task) && answer?.code === Verdict.UNAVAILABLE) {
        lacking.push({ task, answer: { code: answerCodes.need, number: need.identity, text: "" } });
      } else if (!answer || !takeAnswer(deps, task, answer)) lacking.push({ task, answer });
    });
    await lookForMoved(deps, shard, lacking);
    // Ending a large session takes many rounds, each of which makes progress.
    if (lacking.some(({ answer }) => answer?.code === answerCodes.more)) round = 0;
    loaded = await loadMissing(
      deps,
      lacking.filter(({ task }) => !task.result),
    );
    const undecided = lacking.map(({ task }) => task).filter((task) => !task.result);
    open = undecided.filter((task) => shardOf(deps, task) === shard);
    moved.push(...undecided.filter((task) => shardOf(deps, task) !== shard).map(countedAnew));
  }
  return moved;
}

/** What becomes of operations on accounts that have left a shard, and have not arrived in another one yet. */
async function lookForMoved(deps: DecideDeps, shard: Shard, lacking: readonly MissingData[]): Promise<void> {
  const moved = lacking.filter(({ answer }) => answer?.code === answerCodes.moved);
  const accountOf = ({ caller, prepared }: Task): string => caller.accountId || prepared.request.accountId;
  const accountIds = new Set(moved.map(({ task }) => accountOf(task)));
  for (const accountId of accountIds) await deps.moves.look(accountId);
  for (const { task } of moved) {
    if (shardOf(deps, task) !== shard) continue;
    const isWaiting = task.prepared.name === "reserve" && deps.moves.isMoving(accountOf(task));
    // A relay asks again within the time that the call may wait.
    task.result = isWaiting ? { verdict: Verdict.RECALLED } : unavailable;
  }
}

/** Each shard counts the addresses of the calls that it decides. */
function countedAnew(task: Task): Task {
  task.caller = { ...task.caller, isIpCounted: false };
  return task;
}

/** Looks up whose the tasks are; gives those of which that is known now. */
async function identify(deps: BatchContext, tasks: readonly Task[]): Promise<Task[]> {
  const answer: HotAnswer = { code: answerCodes.need, number: need.identity, text: "" };
  await loadMissing(
    deps,
    tasks.map((task) => ({ task, answer })),
  );
  for (const task of tasks) {
    // Nothing was ever held for a key that does not exist.
    if (task.prepared.name === "release" && task.caller.keyId === "") task.result ??= { verdict: Verdict.NO_HOLD };
  }
  return tasks.filter((task) => !task.result).map(countedAnew);
}

const writeTask = ({ leaseMs }: DecideDeps, { prepared, caller }: Task): HotOperation =>
  writeOperation(prepared, caller, leaseMs);

async function applyTimed(
  { contact, relaySession, metrics, log }: BatchContext,
  shard: Shard,
  operations: HotOperation[],
): Promise<HotRun | undefined> {
  const startedAt = performance.now();
  contact.noteRun(shard);
  try {
    const run = await shard.applyFor(relaySession, operations);
    metrics.redis((performance.now() - startedAt) / 1_000, true);
    contact.noteRecalled(shard, run.recalledLeases);
    faultPoint("auth-quota: decided in Redis, not answered");
    return run;
  } catch (error) {
    metrics.redis((performance.now() - startedAt) / 1_000, false);
    const about = { shard: shard.index, operations: operations.length };
    log.error({ err: error, ...about }, "Redis did not answer, outcome unknown");
    return undefined;
  }
}

/** Turns an answer of the script into the task's result; false when the script must run again. */
function takeAnswer(deps: DecideDeps, task: Task, answer: HotAnswer): boolean {
  const { need: isLacking, more, moved } = answerCodes;
  if (answer.code === isLacking || answer.code === more || answer.code === moved) return false;
  const { prepared } = task;
  if (answer.code === answerCodes.concurrency) deps.metrics.concurrencyRefused();
  task.result = toResult(deps.proofKeys[0], task, answer);
  if (answer.code === Verdict.CONFLICT) {
    deps.metrics.conflict(prepared.name, "content");
    deps.log.error({ rid: prepared.request.rid, operation: prepared.name }, "call id reused with different content");
  }
  return true;
}

type MissingData = { task: Task; answer: HotAnswer | undefined };

/** Loads missing data; tasks for which that fails become unavailable. Never rejects. */
async function loadMissing(deps: DecideDeps, lacking: MissingData[]): Promise<HotOperation[]> {
  const brought = await Promise.all(
    lacking.map(async ({ task, answer }) => {
      try {
        return await loadFor(deps, task, answer);
      } catch (error) {
        task.result = refuseForgotten(deps, task, error);
        if (task.result) return [];
        deps.log.error({ err: error, rid: task.prepared.request.rid }, "failed to load data for a decision");
        task.result = unavailable;
        return [];
      }
    }),
  );
  // Many calls may miss the same key.
  return [...new Map(brought.flat().map((operation) => [operation.join(" "), operation])).values()];
}

/** A key that was deleted long ago is forgotten, by whoever still knew whose it was as well. */
function refuseForgotten({ identities }: DecideDeps, { prepared }: Task, error: unknown): Result | undefined {
  const isGone = error instanceof ServiceError && error.code === "not_found";
  if (!isGone || prepared.keyHash === undefined) return undefined;
  identities.forgetOne(prepared.keyHash);
  return { verdict: Verdict.KEY_INVALID };
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
