import type { ServerResponse } from "node:http";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { endName } from "#shared/money/end-name.ts";
import { giveBack } from "../http/body-memory.ts";
import { convertReply, createTranslator } from "../conversion/convert.ts";
import type { AnswerKind, Dialect, Envelope, StreamTap, Tally } from "../dialects/dialect.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import { guardStream } from "./guard.ts";
import type { LiveCall } from "../live-call.ts";
import type { Metrics } from "../metrics.ts";
import type { Prepared } from "../conversion/prepare.ts";
import { pumpStream, type Pumping } from "./pump.ts";
import type { Answered } from "../upstream/reach.ts";
import { droppedHeader, respondReply, streamHeaders } from "../http/respond.ts";
import type { Answer, SendSignal } from "../upstream/send.ts";
import type { Settling } from "../charge/settle.ts";
import { cleanerOf } from "../upstream/failure.ts";
import { countFault, faultOfEnd, faultOfError } from "../upstream/faults.ts";
import { readWhole } from "../upstream/whole.ts";

/** What giving an answer needs of its process. */
export type Deliver = {
  settling: Settling;
  metrics: Metrics;
  limits: { maxReplyBytes: number; maxEventBytes: number };
};

/** A call whose answer can be given to its caller. */
export type Deliverable = {
  call: LiveCall;
  envelope: Envelope;
  dialect: Dialect;
  response: ServerResponse;
  signal: SendSignal;
};

const isEncoded = ({ headers }: Answer): boolean => (headers["content-encoding"] ?? "identity") !== "identity";

const contentTypeOf = ({ headers }: Answer): string => String(headers["content-type"] ?? "");

/** Whether the answer is one that passes while it comes. */
function isFlowing(answer: Answer, kind: AnswerKind): boolean {
  if (isEncoded(answer)) return false;
  if (kind === "bytes") return !contentTypeOf(answer).startsWith("application/json");
  return kind === "events" && contentTypeOf(answer).startsWith("text/event-stream");
}

/** Settles the call, once it is known how its answer ended. */
export type Settle = (endCause: EndCause) => void;

/** Gives the upstream's answer to the caller, and settles the call before the caller has the end of it. */
export function deliver(
  deliverable: Deliverable,
  answered: Answered,
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
  answered: Answered,
  relay: Deliver,
  settleCall: Settle,
): Promise<void> {
  const { call, signal } = deliverable;
  try {
    const body = await readWhole(answered.answer, relay.limits.maxReplyBytes);
    deliverWhole(deliverable, answered, body, settleCall);
  } catch (thrown) {
    // An upstream that we stopped has no fault in it.
    if (!signal.isAborted) countFault(relay.metrics, call.upstream, faultOfError(thrown));
    throw thrown;
  }
}

/** Whether the answer to such a request is one that comes whole. */
function isWhole({ envelope, dialect }: Deliverable, { answer, prepared }: Answered): boolean {
  if (isEncoded(answer)) return false;
  const { answer: kind } = envelope;
  if (prepared.single || kind === "json" || kind === "text") return true;
  return kind === "events" && dialect.mayIgnoreStream === true;
}

const invalid = ({ headers }: Answer): CallFailure => new CallFailure({ name: "upstream_invalid", cause: headers });

function deliverWhole(deliverable: Deliverable, answered: Answered, body: Buffer, settleCall: Settle): void {
  const { call, envelope, response } = deliverable;
  const { answer, prepared } = answered;
  const { times } = call;
  times.upstreamEndedAt = times.arrivedAt = performance.now();
  if (!isWhole(deliverable, answered)) throw invalid(answer);
  const parsed = envelope.answer === "text" ? body.toString() : eventJson(body.toString());
  const reply = replyOf(deliverable, answered, parsed, body);
  if (!reply) throw refusalOf(prepared, parsed) ?? invalid(answer);
  call.tally = reply.tally;
  call.httpStatus = statusTo(response);
  settleCall(EndCause.COMPLETE);
  const headers = { "content-type": reply.contentType, ...droppedHeader(prepared.dropped) };
  respondReply(response, call.rid, reply.body, headers);
  if (!response.destroyed) times.firstByteAt = performance.now();
}

/** The status of an answer for the bill; 0 when nobody is there to be told. */
const statusTo = ({ destroyed }: ServerResponse): number => (destroyed ? 0 : 200);

type Reply = { tally: Tally; body: Buffer; contentType: string };

/** What is charged, and the answer as the caller gets it; undefined when it cannot be read. */
function replyOf(
  { call, dialect, envelope }: Deliverable,
  { prepared, answer }: Answered,
  parsed: unknown,
  bytes: Buffer,
): Reply | undefined {
  const { conversion, single } = prepared;
  const { quirks } = call.offered;
  const contentType = envelope.answer === "json" ? "application/json" : contentTypeOf(answer);
  if (conversion) {
    const { asked } = conversion;
    const { tally, body } = convertReply(parsed, { conversion, asked, envelope, quirks, limits: call.offered }) ?? {};
    return tally && body && { tally, body, contentType };
  }
  const tally = prepared.dialect.readReply(parsed, envelope, quirks);
  if (!tally) return undefined;
  if (!single) return { tally, body: dialect.rewriteReply?.(parsed, envelope) ?? bytes, contentType };
  const reply = single.conversion.writeReply(parsed, single.request, envelope);
  return reply && { tally, ...reply };
}

/** What the caller is told where the upstream made nothing because of what was asked of it. */
function refusalOf({ single }: Prepared, parsed: unknown): CallFailure | undefined {
  const detail = single?.conversion.refusalOf(parsed);
  return detail === undefined ? undefined : new CallFailure({ name: "upstream_refused", detail, cause: detail });
}

/** What watches the stream for the ledger and, where the upstream speaks another dialect, translates it. */
function tapOf({ call, envelope }: Deliverable, { prepared, route }: Answered): StreamTap {
  const { dialect, conversion } = prepared;
  const clean = cleanerOf(route.upstream);
  const { quirks } = call.offered;
  if (!conversion) return dialect.createTap(envelope, clean, quirks);
  const { asked } = conversion;
  return createTranslator({ conversion, asked, envelope, quirks, clean, limits: call.offered });
}

const noBytes = Buffer.alloc(0);
const noBody = readJsonBody(Buffer.from("{}"));

/**
 * A stream may stay open for long and no other upstream may be asked any more, so nobody reads the request again. Only
 * undici keeps the bytes of a small one that it has sent until the answer has ended.
 */
function forgetRequest({ envelope }: Deliverable, { prepared }: Answered): void {
  giveBack(envelope.body.bytes);
  giveBack(prepared.body);
  envelope.body = noBody;
  prepared.body = noBytes;
}

function uncork({ socket }: ServerResponse): void {
  socket?.uncork();
}

/** Puts the stream into the hands of those who look after the call, before anything of it passes. */
function attach({ call, response }: Deliverable, { cut, beat, stalledMs }: Pumping): void {
  call.cut = cut;
  call.beat = beat;
  call.stalledMs = stalledMs;
  call.hangUp = () => response.destroy();
}

/** Starts the stream; where that fails, an answer whose head is out is broken off, for nobody else would end it. */
function startFlow(
  deliverable: Deliverable,
  answered: Answered,
  { settling, metrics, limits }: Deliver,
  settleCall: Settle,
): Pumping {
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
    const pumping = pumpStream({
      answer,
      response,
      tap: tapOf(deliverable, answered),
      tally: call.tally,
      times: call.times,
      counts: { bytes: metrics.streamBytes, backpressure: metrics.backpressure, gaps: metrics.gaps.of({ upstream }) },
      isOfEvents,
      maxEventBytes: limits.maxEventBytes,
      onEnd: settleCall,
      onPiece: () => guardStream(settling, call),
      onBroken: (thrown) => settling.log.warn({ rid, upstream, err: thrown }, "a stream broke while it was read"),
    });
    attach(deliverable, pumping);
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
  answered: Answered,
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
