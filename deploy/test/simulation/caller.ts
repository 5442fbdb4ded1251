import { v7 } from "uuid";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { admit as admitCall } from "../../../services/relay/charge/admit.ts";
import { withinLease } from "../../../services/relay/leased-call.ts";
import type { Model } from "../../../services/relay/catalog/models.ts";
import type { Envelope } from "../../../services/relay/dialects/dialect.ts";
import { CallFailure, type FailureName } from "../../../services/relay/failures.ts";
import { checkpoint, guardStream } from "../../../services/relay/stream/guard.ts";
import { beginLiveCall, type LiveCall } from "../../../services/relay/live-call.ts";
import { release, settle } from "../../../services/relay/charge/settle.ts";
import { isOver, type Process } from "./clock.ts";
import type { Random } from "./random.ts";
import type { Relay } from "./relay.ts";

/** Who pays: an account with its one key. */
export type Payer = {
  accountId: string;
  /** What the account may spend in all; null: limited by its balance alone. */
  limitOfAccount: string | null;
  keyId: string;
  keyHash: Uint8Array;
  limitNanos: string | null;
  /** Calls under way; 0: without a limit. */
  mostOfAccount: number;
  mostOfKey: number;
  /** Calls of the account in a minute; 0: as many as it likes. */
  perMinute: number;
  status: "active" | "stopped";
};

const endings = [
  "whole",
  "whole-untold",
  "caller-cut",
  "left-early",
  "read-on",
  "upstream-cut",
  "cut-but-told",
  "failed",
  "not-sent",
] as const;

/** A call as it is meant to go: drawn before anything happens. */
export type CallPlan = {
  atMs: number;
  payer: Payer;
  inputTokens: number;
  /** Pieces of content, in output tokens, and the time between two of them. */
  pieces: number[];
  gapMs: number;
  /** The cap that the caller set, if any. */
  outputCap: number | undefined;
  ending: (typeof endings)[number];
  ridBytes: Uint8Array;
};

/** What really happened in a call: the oracle of the simulation, kept apart from the product. */
export type Truth = {
  rid: string;
  payer: Payer;
  place: string;
  relaySession: string;
  process: Process;
  state: "asking" | "refused" | "released" | "running" | "settling" | "settled";
  startedAtMs: number;
  endedAtMs: number;
  /** When a charge for it was booked last; Infinity: never. */
  bookedAtMs: number;
  inputTokens: number;
  outputTokens: number;
  /** Whether the caller has left while the upstream had the request, so that the input is owed. */
  isLeft: boolean;
  heldNanos: bigint;
  call: LiveCall | undefined;
  /** Whether the caller had the whole answer. */
  hasWhole: boolean;
  /** What the call costs, once it has ended and the relay lived to write it down. */
  finalNanos: bigint | undefined;
  /** What the relay told while the call ran. */
  checkpoints: Set<bigint>;
  /** The highest of them that auth-quota has taken. */
  acceptedNanos: bigint;
  /** The lease within which it was admitted; "": it was admitted by auth-quota. */
  leaseRid: string;
  /** Whether it ended within that, and had no hold of its own. */
  hasEndedWithin: boolean;
  /** Whether its grant was looked at. */
  isCounted: boolean;
  /** Whether the relay's disk was lost before the call was known to be booked. */
  isDiskLost: boolean;
};

// Odd prices, so that rounding shows.
const inputPrice = 1_234_567_891n;
const outputPrice = 9_876_543_211n;

const model: Model = {
  id: "m",
  ownedBy: "somebody",
  createdAtSeconds: 0,
  routes: [],
  contextTokens: 1_000_000,
  maxOutputTokens: 100_000,
  reserveOutputTokens: 300,
  dialects: new Set(),
  variants: [],
  quirks: new Set(),
  priceVersion: "v1",
  prices: { inputTokens: inputPrice, outputTokens: outputPrice, reasoningTokens: outputPrice },
};

/** The price of what was served so far, in nano-USD: reckoned here, not by the product. */
export function priceOf({
  inputTokens,
  outputTokens,
  isLeft,
}: Pick<Truth, "inputTokens" | "outputTokens" | "isLeft">): bigint {
  if (outputTokens === 0 && !isLeft) return 0n;
  const millionths = BigInt(inputTokens) * inputPrice + BigInt(outputTokens) * outputPrice;
  return millionths / 1_000_000n + (millionths % 1_000_000n > 0n ? 1n : 0n);
}

export type Load = { payers: readonly Payer[]; lastMs: number; longShare: number };

/** Draws the calls of a world; so large a share of them is long. */
export function drawCalls(random: Random, { payers, lastMs, longShare }: Load): CallPlan[] {
  return Array.from({ length: random.between(10, 25) }, () => {
    const isLong = random.chance(longShare);
    const pieces = Array.from({ length: random.between(isLong ? 5 : 1, 12) }, () => random.between(1, 150));
    const total = pieces.reduce((sum, tokens) => sum + tokens, 0);
    return {
      atMs: random.between(0, lastMs),
      payer: random.pick(payers),
      inputTokens: random.between(1, 2_000),
      pieces,
      gapMs: isLong ? random.between(400, 5_000) : random.between(5, 400),
      outputCap: random.chance(0.6) ? total : undefined,
      ending: random.chance(0.6) ? "whole" : random.pick(endings),
      ridBytes: Uint8Array.from({ length: 16 }, () => random.between(0, 255)),
    };
  });
}

const wait = (delayMs: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, delayMs));

export type CallContext = {
  plan: CallPlan;
  relay: Relay;
  truth: Truth;
  process: Process;
  note: (text: string) => void;
  onRefused: (refusal: FailureName) => void;
};

type RelayNode = { name: string; process: Process; clockAheadMs: number };

export function beginTruth(plan: CallPlan, { name, process, clockAheadMs }: RelayNode, relay: Relay): Truth {
  return {
    rid: v7({ msecs: Date.now() + clockAheadMs, seq: 0, random: plan.ridBytes }),
    payer: plan.payer,
    place: name,
    relaySession: relay.settling.relaySession,
    process,
    state: "asking",
    startedAtMs: Date.now(),
    endedAtMs: Infinity,
    bookedAtMs: Infinity,
    inputTokens: plan.inputTokens,
    outputTokens: 0,
    isLeft: false,
    heldNanos: 0n,
    call: undefined,
    hasWhole: false,
    finalNanos: undefined,
    checkpoints: new Set(),
    acceptedNanos: 0n,
    leaseRid: "",
    hasEndedWithin: false,
    isCounted: false,
    isDiskLost: false,
  };
}

/** One call from its admission to its charge, in the steps of the relay's call.ts, with an upstream as planned. */
export async function runCall(calling: CallContext): Promise<void> {
  const { plan, relay, truth } = calling;
  const call = await admit(calling);
  if (!call) return;
  relay.live.add(call);
  truth.state = "running";
  truth.call = call;
  if (plan.ending === "not-sent") {
    truth.hasEndedWithin = withinLease(call.leased) !== undefined;
    release(relay.settling, call);
    relay.live.delete(call);
    truth.state = "released";
    truth.endedAtMs = Date.now();
    return;
  }
  let isEnded = false;
  const end = (cause: EndCause): void => {
    if (isEnded) return;
    isEnded = true;
    finish(calling, call, cause);
  };
  call.cut = end;
  call.upstream = "somewhere";
  await wait(plan.gapMs);
  if (plan.ending === "failed") return end(EndCause.UPSTREAM_ERROR);
  if (plan.ending === "left-early" || plan.ending === "read-on") {
    leave(calling, call);
    await wait(plan.gapMs);
    if (plan.ending === "left-early" && !isEnded) return end(EndCause.CLIENT_GONE);
  }
  await pass(calling, call, () => isEnded);
  if (!isEnded) end(causeOf(plan, call));
}

/** The caller leaves before any content; its call is read on or cut, as the relay's orphans are. */
function leave({ relay, truth }: CallContext, call: LiveCall): void {
  truth.isLeft = true;
  call.isOrphan = true;
  checkpoint(relay.settling, call, true);
}

async function admit({ plan, relay, truth, onRefused }: CallContext): Promise<LiveCall | undefined> {
  const { settling } = relay;
  const { payer, inputTokens } = plan;
  try {
    const problem = settling.spool.problem();
    if (problem !== undefined) throw new Error(problem);
    const none = { has: () => false, mayHold: () => false, hasEscapedLetters: () => false };
    const body = { ...none, slice: () => undefined, media: [], addresses: 0, textTokens: () => inputTokens };
    const envelope = { body, outputCap: plan.outputCap, choices: 1, units: {} } as unknown as Envelope;
    const caller = { keyHash: payer.keyHash, address: "192.0.2.1", from: "", accountId: "", isAuthorized: false };
    const hold = await admitCall(relay, caller, { rid: truth.rid, envelope, model });
    truth.heldNanos = hold.heldNanos;
    return beginLiveCall({
      ...hold,
      rid: truth.rid,
      endpoint: "/v1/chat/completions",
      offered: model,
      model,
      isStream: true,
      requested: { inputTokens, units: {}, priceFields: {} },
      startedAtMs: Date.now(),
    });
  } catch (error) {
    // A call that our own fault refuses would make a world in which nothing happens.
    if (error instanceof TypeError) throw error;
    if (error instanceof CallFailure) onRefused(error.failure.name);
    truth.state = "refused";
    truth.endedAtMs = Date.now();
    return undefined;
  }
}

/** The content of the answer, as far as it is planned to come. */
async function pass({ plan, relay, truth }: CallContext, call: LiveCall, isEnded: () => boolean): Promise<void> {
  const isCut = !["whole", "whole-untold", "read-on"].includes(plan.ending);
  const pieces = isCut ? plan.pieces.slice(0, Math.ceil(plan.pieces.length / 2)) : plan.pieces;
  for (const tokens of pieces) {
    call.tally.contentTokens += tokens;
    call.tally.hasContent = true;
    truth.outputTokens += tokens;
    guardStream(relay.settling, call);
    if (isEnded()) return;
    await wait(plan.gapMs);
    if (isEnded()) return;
  }
}

/** How the answer ends, and what the upstream has told by then. */
function causeOf({ ending, inputTokens }: CallPlan, { tally }: LiveCall): EndCause {
  const isTold = ending === "whole" || ending === "read-on" || ending === "cut-but-told";
  if (isTold) {
    tally.usage = { inputTokens: BigInt(inputTokens), outputTokens: BigInt(tally.contentTokens) };
    tally.toldTokens = BigInt(inputTokens + tally.contentTokens);
  }
  if (ending === "whole" || ending === "whole-untold" || ending === "read-on") return EndCause.COMPLETE;
  return ending === "caller-cut" ? EndCause.CLIENT_GONE : EndCause.UPSTREAM_CUT;
}

/** Charges first; only then may the caller have the end of the answer. */
function finish(calling: CallContext, call: LiveCall, cause: EndCause): void {
  const { relay, truth, process } = calling;
  truth.state = "settling";
  truth.heldNanos = call.heldNanos;
  truth.endedAtMs = Date.now();
  truth.hasEndedWithin = withinLease(call.leased) !== undefined;
  calling.note(`settle ${truth.rid} ${priceOf(truth)}`);
  settle(relay.settling, call, cause);
  relay.live.delete(call);
  if (isOver(process)) return;
  truth.state = "settled";
  truth.finalNanos = priceOf(truth);
  truth.hasWhole = cause === EndCause.COMPLETE && !truth.isLeft;
}
