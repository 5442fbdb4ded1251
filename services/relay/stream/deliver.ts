import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { endName } from "#shared/money/end-name.ts";
import { releaseBuffer } from "../http/body-memory.ts";
import type { CallTimes } from "../call-times.ts";
import { bindingOf } from "../conversion/bind-state.ts";
import { readReply, tapOf, type ReadReply, type ReplyReading } from "../conversion/whole-reply.ts";
import { noCounts, type Dialect, type Envelope, type Tally } from "../dialects/dialect.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import type { CallResponse } from "../http/exchange.ts";
import { deliverOversized } from "./deliver-oversized.ts";
import { chargeLost } from "./lost-answer.ts";
import { guardStream } from "./guard.ts";
import { roomInTurn } from "../http/turn-share.ts";
import { HeldRoom } from "../http/held-room.ts";
import type { ReplyPlace, ReplyRoom } from "../http/reply-room.ts";
import type { LiveCall } from "../live-call.ts";
import type { Metrics } from "../metrics.ts";
import { pumpStream, type PumpHandle } from "./pump.ts";
import { contentTypeOf, isEncoded, isFlowing } from "../upstream/answer-head.ts";
import type { UpstreamAnswer } from "../upstream/reach.ts";
import { droppedHeader, respondReply, statusOfFailure, streamHeaders } from "../http/respond.ts";
import type { Answer, SendSignal } from "../upstream/send.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import { cleanerOf, upstreamFailure } from "../upstream/failure.ts";
import { toldStatus } from "../upstream/first-error.ts";
import { countFault, faultOfEnd, faultOfError } from "../upstream/faults.ts";
import { maxErrorBytes, readLargeWhole, readWhole, type LargeAnswer } from "../upstream/whole.ts";
import { factsOf } from "../threads/facts.ts";
import type { Binding, ReplyFacts, TallyResult } from "../threads/messages.ts";
import { largeBytes, type Threads, type ThreadSession } from "../threads/threads.ts";

/** What giving an answer needs of its process. */
export type Deliver = {
  settling: SettlementDeps;
  metrics: Metrics;
  limits: { maxReplyBytes: number; maxEventBytes: number };
  threads: Threads;
  replies: ReplyRoom;
};

/** A call whose answer can be given to its caller. */
export type Deliverable = {
  call: LiveCall;
  envelope: Envelope;
  dialect: Dialect;
  response: CallResponse;
  signal: SendSignal;
};

/** Settles the call, once it is known how its answer ended. */
export type Settle = (endCause: EndCause) => void;

/** Gives the upstream's answer to the caller, and settles the call before the caller has the end of it. */
export function deliver(
  deliverable: Deliverable,
  answered: UpstreamAnswer,
  relay: Deliver,
  settleCall: Settle,
): Promise<void> {
  const { answer, prepared } = answered;
  const isFlow = !prepared.single && isFlowing(answer, deliverable.envelope.answer);
  const give = isFlow ? deliverFlow : deliverRead;
  return give(deliverable, answered, relay, settleCall);
}

async function deliverRead(
  deliverable: Deliverable,
  answered: UpstreamAnswer,
  relay: Deliver,
  settleCall: Settle,
): Promise<void> {
  const { call, signal } = deliverable;
  const place = relay.replies.open(call.accountId);
  using sessions = new DisposableStack();
  try {
    if (!isWhole(deliverable, answered)) {
      throw failureOfBody(await readWhole(answered.answer, maxErrorBytes), answered);
    }
    const body = await readAnswer(deliverable, answered, relay, { sessions, place });
    if (!Buffer.isBuffer(body) && body.rest) {
      return await passOversized(deliverable, answered, relay, { ...body, rest: body.rest, place, settleCall });
    }
    noteEnd(call.times);
    const room = Buffer.isBuffer(body) ? roomInTurn() : undefined;
    if (room) await room.then(() => refuseCut(signal));
    const read = Buffer.isBuffer(body)
      ? readReply(body, readingOf(deliverable, answered))
      : await readInThread(body.session, deliverable, answered).catch((thrown: unknown) => {
          throw chargeLost(deliverable, thrown, settleCall);
        });
    if (!read.reply && read.refusal === undefined && Buffer.isBuffer(body)) throw failureOfBody(body, answered);
    deliverWhole(deliverable, answered, read, settleCall);
    keepUntilRead(place, deliverable, relay);
  } catch (thrown) {
    place.release();
    // An upstream that we stopped has no fault in it.
    if (!signal.isAborted) countFault(relay.metrics, call.upstream, faultOfError(thrown));
    throw thrown;
  }
}

type Overflowing = { session: ThreadSession; rest: Answer; place: ReplyPlace; settleCall: Settle };

// Of an answer that is too large: of a provider that sends without an end somebody must have had enough.
const maxTimesLarger = 16;

/** Gives an answer that is too large to be kept. */
async function passOversized(
  deliverable: Deliverable,
  answered: UpstreamAnswer,
  relay: Deliver,
  { session, rest, place, settleCall }: Overflowing,
): Promise<void> {
  const { call, envelope } = deliverable;
  const { conversion, single, dropped } = answered.prepared;
  // Nothing of its bytes is the caller's own where it is converted, sealed or of another kind than he asked for.
  const isPassed = !conversion && !single && envelope.answer === "json" && !bindingFor(deliverable, answered);
  const reading = factsOfReading(deliverable, answered);
  const headers = droppedHeader(dropped);
  const maxBytes = maxTimesLarger * relay.limits.maxReplyBytes;
  if (isPassed) keepUntilRead(place, deliverable, relay);
  const oversized = { session, rest, reading, isPassed, headers, maxBytes };
  await deliverOversized(deliverable, oversized, relay.threads, settleCall).catch((thrown: unknown) => {
    throw chargeLost(deliverable, thrown, settleCall);
  });
  noteEnd(call.times);
  place.release();
}

/** What waits for its caller is in memory. */
function keepUntilRead(place: ReplyPlace, { call, response }: Deliverable, { settling }: Deliver): void {
  const { heldBytes: bytes } = place;
  if (bytes === 0) return;
  if (response.destroyed) return place.release();
  response.once("close", place.release);
  place.awaitReader(() => {
    settling.log.warn({ rid: call.rid, bytes }, "an answer that is read slowly is broken off: others wait for room");
    response.destroy();
  });
}

function noteEnd(times: CallTimes): void {
  times.upstreamEndedAt = times.arrivedAt = performance.now();
}

/** Reads the answer into a thread where it is large, or where the thread has the request by which it is read. */
function readAnswer(
  { call }: Deliverable,
  { answer, prepared }: UpstreamAnswer,
  { limits, threads }: Deliver,
  { sessions, place }: { sessions: DisposableStack; place: ReplyPlace },
): Promise<Buffer | LargeAnswer> {
  const { single, session } = prepared;
  const isInThread = single !== undefined && session !== undefined;
  const open = (): ThreadSession => sessions.adopt(threads.open(call.accountId), (opened) => opened.forget());
  const openSession = (): ThreadSession => (isInThread ? session : open());
  return readLargeWhole(answer, limits.maxReplyBytes, { place, openSession, largeFrom: isInThread ? 0 : largeBytes });
}

/** Whether the answer to such a request is one that can be read as a whole: also where a stream was asked for. */
function isWhole({ envelope }: Deliverable, { answer, prepared }: UpstreamAnswer): boolean {
  return !isEncoded(answer) && (prepared.single !== undefined || envelope.answer !== "bytes");
}

const invalid = ({ headers }: Answer): CallFailure => new CallFailure({ name: "upstream_invalid", cause: headers });

/**
 * What an answer with status 200 is that is none of its format: gateways answer so with an error in the body, some with
 * the status that it had elsewhere as its code (OpenRouter); else its words tell.
 */
function failureOfBody(bytes: Buffer, { answer, prepared, route }: UpstreamAnswer): CallFailure {
  const body = isEncoded(answer) ? undefined : eventJson(bytes.toString());
  const error = prepared.dialect.readError(body);
  if (!error) return invalid(answer);
  return new CallFailure(upstreamFailure(toldStatus(error) ?? 500, body, prepared.dialect, route.upstream));
}

/** What the caller is told where the upstream made nothing because of what was asked of it; it bills what it did. */
function refuseWhole(
  { call, response, dialect }: Deliverable,
  { refusal, tally }: { refusal: string; tally?: Tally | undefined },
  settleCall: Settle,
): never {
  const failure = { name: "upstream_refused", detail: refusal, cause: refusal } as const;
  if (tally) {
    call.tally = tally;
    call.httpStatus = statusOfFailure(response, failure, dialect);
    settleCall(EndCause.COMPLETE);
  }
  throw new CallFailure(failure);
}

function deliverWhole(
  deliverable: Deliverable,
  { answer, prepared }: UpstreamAnswer,
  { reply, refusal, tally }: ReadReply,
  settleCall: Settle,
): void {
  const { call, response } = deliverable;
  if (!reply && refusal !== undefined) refuseWhole(deliverable, { refusal, tally }, settleCall);
  if (!reply) throw invalid(answer);
  call.tally = reply.tally;
  call.httpStatus = statusTo(response);
  settleCall(EndCause.COMPLETE);
  const headers = { "content-type": reply.contentType, ...droppedHeader(prepared.dropped) };
  respondReply(response, call.rid, reply.body, headers);
  if (!response.destroyed) call.times.firstByteAt = performance.now();
}

/** The status of an answer for the bill; 0 when nobody is there to be told. */
const statusTo = ({ destroyed }: CallResponse): number => (destroyed ? 0 : 200);

/** For whom ids of the provider's state in an answer are sealed; undefined where it shows none, or shares them. */
function bindingFor({ call, dialect }: Deliverable, { prepared, route }: UpstreamAnswer): Binding | undefined {
  const isPassed = !prepared.conversion && !prepared.single;
  if (!isPassed || !dialect.stateIdsOf || call.offered.sharedState?.has("response")) return undefined;
  return bindingOf(route.upstream, call.accountId);
}

function readingOf(deliverable: Deliverable, answered: UpstreamAnswer): ReplyReading {
  const { call, dialect, envelope } = deliverable;
  return {
    envelope,
    dialect,
    prepared: answered.prepared,
    quirks: call.offered.quirks,
    limits: call.offered,
    contentType: contentTypeOf(answered.answer),
    binding: bindingFor(deliverable, answered),
  };
}

/** The same as facts that a thread may be told. */
function factsOfReading(deliverable: Deliverable, answered: UpstreamAnswer): ReplyFacts {
  const { prepared, answer } = answered;
  const { call, dialect, envelope } = deliverable;
  const { contextTokens, maxOutputTokens, quirks } = call.offered;
  const { conversion, single } = prepared;
  return {
    dialect: dialect.name,
    spoken: prepared.dialect.name,
    facts: factsOf(envelope),
    quirks,
    limits: { contextTokens, maxOutputTokens },
    contentType: contentTypeOf(answer),
    binding: bindingFor(deliverable, answered),
    // Functions do not pass to a thread.
    asked: conversion && { ...conversion.asked, remember: undefined },
    single: single && { request: single.request },
  };
}

function toldTally({ tally, hasNoCounts }: TallyResult): Tally {
  if (hasNoCounts) tally.usage = noCounts;
  return tally;
}

function refuseCut({ isAborted }: SendSignal): void {
  if (isAborted) throw new CallFailure({ name: "service_unavailable", cause: "the call was cut" });
}

/** Reads it in a thread. Throws when the call was cut meanwhile. */
async function readInThread(
  session: ThreadSession,
  deliverable: Deliverable,
  answered: UpstreamAnswer,
): Promise<ReadReply> {
  const { signal } = deliverable;
  const reading = factsOfReading(deliverable, answered);
  const { reply, refusal, refused } = await session.work<"reply">({ kind: "reply", reading });
  refuseCut(signal);
  if (!reply) return { refusal, tally: refused && toldTally(refused) };
  return { reply: { ...reply, tally: toldTally(reply), body: Buffer.from(reply.body.buffer) } };
}

const noBytes = Buffer.alloc(0);
const noBody = readJsonBody(Buffer.from("{}"));

/**
 * A stream may stay open for long and no other upstream may be asked any more, so nobody reads the request again. Only
 * undici keeps the bytes of a small one that it has sent until the answer has ended.
 */
function forgetRequest({ envelope }: Deliverable, { prepared }: UpstreamAnswer): void {
  releaseBuffer(envelope.body.bytes);
  releaseBuffer(prepared.body);
  prepared.session?.forget();
  envelope.body = noBody;
  prepared.body = noBytes;
}

function uncork({ socket }: CallResponse): void {
  socket?.uncork();
}

/** Puts the stream into the hands of those who look after the call, before anything of it passes. */
function attach({ call, response }: Deliverable, { cut, beat, stalledMs, holdBack }: PumpHandle): void {
  call.cut = cut;
  call.beat = beat;
  call.stalledMs = stalledMs;
  call.holdBack = holdBack;
  call.hangUp = () => response.destroy();
}

/** Counts what is in memory of a stream until its caller has read it. */
function keepRoom({ call, response }: Deliverable, pumping: PumpHandle, replies: ReplyRoom): HeldRoom {
  const { source, keptBytes, over } = pumping;
  const hold = (): void => source.pause();
  const room = new HeldRoom(replies.open(call.accountId), { bytes: keptBytes, hold, free: () => source.resume() });
  response.on("drain", () => room.look());
  // Behind its end it is kept for its caller, and behind its caller it is read on.
  const end = (): void => void over.then(() => room[Symbol.dispose]());
  if (response.destroyed) end();
  else response.once("close", end);
  return room;
}

/** Starts the stream; where that fails, an answer whose head is out is broken off, for nobody else would end it. */
function startFlow(
  deliverable: Deliverable,
  answered: UpstreamAnswer,
  { settling, metrics, limits, replies }: Deliver,
  settleCall: Settle,
): PumpHandle {
  const { call, envelope, response } = deliverable;
  const { answer, prepared } = answered;
  const { upstream, rid } = call;
  const isOfEvents = envelope.answer === "events";
  const headers = isOfEvents ? streamHeaders(rid) : streamHeaders(rid, contentTypeOf(answer));
  // The head goes out in this turn, with what has come of the body.
  response.socket?.cork();
  try {
    const head = { ...headers, ...droppedHeader(prepared.dropped) };
    if (!response.destroyed) response.writeHead(200, head).flushHeaders();
    const pumping: PumpHandle = pumpStream({
      answer,
      response,
      tap: tapOf(readingOf(deliverable, answered), cleanerOf(answered.route.upstream)),
      tally: call.tally,
      times: call.times,
      counts: { bytes: metrics.streamBytes, backpressure: metrics.backpressure, gaps: metrics.gaps.of({ upstream }) },
      isOfEvents,
      maxEventBytes: limits.maxEventBytes,
      onEnd: settleCall,
      onPiece: () => {
        guardStream(settling, call);
        room.look();
      },
      onBroken: (thrown) => settling.log.warn({ rid, upstream, err: thrown }, "a stream broke while it was read"),
    });
    attach(deliverable, pumping);
    const room = keepRoom(deliverable, pumping, replies);
    pumping.flow();
    return pumping;
  } catch (thrown) {
    answer.abort();
    if (response.headersSent) response.destroy();
    throw thrown;
  } finally {
    process.nextTick(uncork, response);
  }
}

async function deliverFlow(
  deliverable: Deliverable,
  answered: UpstreamAnswer,
  relay: Deliver,
  settleCall: Settle,
): Promise<void> {
  const { call } = deliverable;
  const { upstream } = call;
  const { metrics } = relay;
  call.httpStatus = statusTo(deliverable.response);
  forgetRequest(deliverable, answered);
  const { over } = startFlow(deliverable, answered, relay, settleCall);
  metrics.liveStreams.inc();
  await over;
  metrics.liveStreams.dec();
  const reason = endName(call.endCause);
  metrics.streamEnds.inc({ upstream, reason });
  countFault(metrics, upstream, faultOfEnd(reason));
}
