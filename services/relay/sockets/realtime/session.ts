import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { closedFor, failureOf, type Relay } from "../../call.ts";
import type { Caller } from "../../charge/admit.ts";
import type { Model } from "../../catalog/models.ts";
import { member, stringOf } from "../../dialects/dialect.ts";
import { dialects } from "../../dialects/index.ts";
import { readClientEvent, type ClientEvent, type EventRules } from "../../dialects/openai-realtime/client-event.ts";
import { readError } from "../../dialects/openai-shared/error.ts";
import { hasManyMarks } from "../../dialects/json/marks.ts";
import { RequestError } from "../../dialects/request-error.ts";
import { eventJson } from "../../dialects/sse.ts";
import { CallFailure, renderFailure, type Failure } from "../../failures.ts";
import type { BodyShare } from "../../http/body-budget.ts";
import { refusalOfBody } from "../../http/read.ts";
import { inTurn } from "../../http/turn-share.ts";
import { noteRefusal } from "../../report/refusals.ts";
import { cleanerOf } from "../../upstream/failure.ts";
import { FrameRoom } from "../../upstream/frame-room.ts";
import { Intake } from "../intake.ts";
import { closeSocket, type HeldSocket, type SocketEnd, type SocketLimits, type ToldEnd } from "../socket-end.ts";
import type { UpstreamSocket } from "./connect-upstream.ts";
import type { HeldAhead, HeldFor } from "./held-ahead.ts";
import { Asked } from "./asked.ts";
import { errorEvent, failureEvent, otherWriter, tooOld } from "./error-events.ts";
import { Inbox } from "./inbox.ts";
import { rulesOf } from "./rules.ts";
import { isOfConversation, isWhole, responseIdOf, Responses, type Reported } from "./responses.ts";
import type { SessionContext } from "./session-context.ts";
import { SessionTime } from "./session-time.ts";
import { itemIdOf, Transcripts } from "./transcripts.ts";

const dialect = dialects["openai-realtime"];

/** What a session begins with. */
export type SessionStart = {
  rid: string;
  ip: string;
  caller: Caller;
  /** Models that the key may use; none: all. */
  allowedModels: readonly string[];
  model: Model;
  upstream: UpstreamSocket;
  /** The first call is held. */
  ahead: HeldAhead;
  context: SessionContext;
  /** What a client secret says of the session, as the upstream shall get it. */
  opening: ClientEvent | undefined;
};

export type OpenedSession = { webSocket: WebSocket; connection: Duplex; intake: BodyShare };

// Bytes that wait to be sent on, above which nothing more is read.
const maxBufferedBytes = 1_048_576;
// More than sound that is sent as it is said has, in a second, or between two looks; what is more waits. A mebibyte is
// read in some 10 ms, in which nobody else is served.
const maxFrames = 1_000;
const maxFrameBytes = 8_388_608;
// Of one event: tools have some thousands, and prose has a comma in ten words.
const maxMarks = 100_000;
// A caller who does not read for so long has left.
const maxUnreadMs = 60_000;
// How long a provider is waited for to count what it was stopped at.
const countingMs = 5_000;

const ignore = (): void => undefined;

/** A session of a caller with a provider: passes events both ways, and holds and charges what they cost. */
export class RealtimeSession implements HeldSocket {
  readonly accountId: string;
  turns = 0;
  end: SocketEnd = "caller";
  private readonly start: SessionStart;
  private readonly opened: OpenedSession;
  private readonly relay: Relay;
  private readonly limits: SocketLimits;
  private readonly rules: EventRules;
  private readonly responses: Responses;
  private readonly asked = new Asked(() => this.start.context.refusedLast());
  private readonly transcripts: Transcripts;
  private readonly time: SessionTime | undefined;
  private readonly intake: Intake;
  private readonly fromCaller: Inbox;
  private readonly fromUpstream: Inbox;
  private readonly room: FrameRoom;
  private readonly reported: Reported;
  private readonly clean: ReturnType<typeof cleanerOf>;
  private readonly openedAtMs = performance.now();
  private seenAtMs = this.openedAtMs;
  private pingedAtMs = this.openedAtMs;
  private busyAtMs = this.openedAtMs;
  private unreadSinceMs = Infinity;
  private frames = 0;
  private frameBytes = 0;
  private refused = 0;
  private isLeaving = false;
  private isLeft = false;
  private leftTimer: NodeJS.Timeout | undefined;
  private isOver = false;

  constructor(start: SessionStart, opened: OpenedSession, relay: Relay, limits: SocketLimits) {
    const { model, upstream, ahead, context, rid: socket, ip } = start;
    this.start = start;
    this.opened = opened;
    this.relay = relay;
    this.limits = limits;
    this.accountId = start.caller.accountId;
    this.reported = { ip, socket };
    this.rules = rulesOf(start, relay);
    this.clean = cleanerOf(upstream.route.upstream);
    this.time = SessionTime.isPriced(model) ? new SessionTime(relay, ahead, this.reported) : undefined;
    this.responses = new Responses(relay, ahead, this.reported);
    this.transcripts = new Transcripts(relay, context, this.reported);
    this.intake = new Intake(opened.intake);
    const { webSocket, connection } = opened;
    connection.on("data", (chunk: Buffer) => this.arrive(chunk.length));
    webSocket.once("close", () => this.callerGone());
    upstream.webSocket.once("close", (code) => this.upstreamGone(code));
    this.fromCaller = new Inbox(webSocket, (bytes, isBinary) => this.receive(bytes, isBinary));
    this.fromUpstream = new Inbox(upstream.webSocket, (bytes) => this.pass(bytes));
    this.room = this.watchRoom();
    ahead.onCut = this.onCut;
    this.fromCaller.hold();
    this.fromUpstream.hold();
    void this.begin();
  }

  leave(end: "age" | "drain" | "key"): void {
    if (this.isLeaving || this.isOver) return;
    this.isLeaving = true;
    this.end = end;
    this.closeIfIdle();
  }

  check(nowMs: number): void {
    if (this.isOver) return;
    const { maxAgeMs, idleMs, pingMs } = this.limits;
    this.frames = 0;
    this.frameBytes = 0;
    this.freeIfRoom();
    if (nowMs - this.unreadSinceMs > maxUnreadMs) return this.cut("not_reading");
    if (nowMs - this.openedAtMs > maxAgeMs) this.leave("age");
    if (this.responses.size === 0 && nowMs - this.busyAtMs > idleMs) this.finish("idle", EndCause.COMPLETE);
    if (this.intake.isSlow(nowMs)) this.finish("slow_frame", EndCause.CLIENT_GONE);
    const { idleTimeoutMs } = this.start.upstream.route.upstream;
    if (!this.room.isWaiting && this.responses.isSilent(nowMs, idleTimeoutMs))
      this.finish("upstream", EndCause.UPSTREAM_TIMEOUT);
    const silentMs = nowMs - this.seenAtMs;
    if (silentMs > 3 * pingMs) this.cut("silent");
    else if (silentMs > pingMs && nowMs - this.pingedAtMs > pingMs) this.ping(nowMs);
    this.time?.tick(nowMs);
    this.asked.check(nowMs, countingMs);
  }

  private watchRoom(): FrameRoom {
    const { upstream } = this.start;
    const place = this.relay.replies.open(this.accountId);
    const room = new FrameRoom(place, {
      // What is left in a socket that has closed is nobody's.
      unreadBytes: () => (this.isLeft ? 0 : this.opened.webSocket.bufferedAmount),
      hold: () => this.fromUpstream.hold(),
      free: () => this.freeIfRoom(),
    });
    room.watch(upstream.webSocket, upstream.connection);
    return room;
  }

  private ping(nowMs: number): void {
    this.pingedAtMs = nowMs;
    this.opened.webSocket.ping(undefined, undefined, ignore);
    this.start.upstream.webSocket.ping(undefined, undefined, ignore);
  }

  private async begin(): Promise<void> {
    const { opening } = this.start;
    try {
      await this.time?.begin();
      if (opening) await this.take(opening);
      this.fromCaller.free();
      this.fromUpstream.free();
    } catch (thrown) {
      this.fail(failureOf(thrown));
    }
  }

  private arrive(bytes: number): void {
    this.seenAtMs = performance.now();
    if (this.opened.webSocket.readyState !== 1 || this.intake.arrive(bytes)) return;
    this.refuse({ name: "service_unavailable", cause: "no room for the frames of a socket" });
    this.finish("no_room", EndCause.CLIENT_GONE);
  }

  private receive(bytes: Buffer, isBinary: boolean): void | Promise<void> {
    if (this.isOver) return undefined;
    this.intake.wait(0);
    this.frames += 1;
    this.frameBytes += bytes.length;
    if (this.isTooFast()) this.fromCaller.hold();
    let event: ClientEvent;
    try {
      if (isBinary) throw new CallFailure({ name: "invalid_json", cause: "a binary frame" });
      if (hasManyMarks(bytes, maxMarks)) throw new RequestError("the event has too many JSON values");
      const given = eventJson(bytes.toString());
      if (given === undefined) throw new CallFailure({ name: "invalid_json", cause: "a frame that is no JSON" });
      event = readClientEvent(given, this.rules);
    } catch (thrown) {
      return this.refuse(failureOf(refusalOfBody(thrown)));
    }
    return this.take(event);
  }

  /** Sends an event of the caller on, when what it may cost is held for. */
  private async take(event: ClientEvent): Promise<void> {
    const { context, ahead, upstream, model } = this.start;
    const isResponse = event.type === "response.create";
    if (isResponse) await this.asked.over();
    if (isResponse && (this.isLeaving || closedFor(this.relay))) {
      return this.refuse({ name: "service_unavailable", cause: "the session is leaving" }, event.eventId);
    }
    const { outputCap, ...change } = event.change;
    const { transcriber: before } = context;
    if (change.transcriber && !context.mayWrite(change.transcriber)) return this.refuse(otherWriter, event.eventId);
    context.change(isResponse ? {} : { ...change, outputCap });
    context.add(event);
    try {
      if (context.transcriber !== before) {
        await this.transcripts.use(this.transcriberFor(context.transcriber), this.onCut);
      }
      if (!this.time) {
        await ahead.prepare();
        await ahead.grow(context.nextResponse(model, isResponse ? (outputCap ?? undefined) : undefined));
      }
      await this.transcripts.grow();
    } catch (thrown) {
      return this.fail(failureOf(thrown), event.eventId);
    }
    this.refused = 0;
    this.busyAtMs = performance.now();
    if (this.isOver) return;
    const frame = isResponse && !this.time ? this.asked.begin(event.frame, event.eventId) : event.frame;
    upstream.webSocket.send(frame, () => this.freeIfRoom());
    if (upstream.webSocket.bufferedAmount > maxBufferedBytes) this.fromCaller.hold();
  }

  private transcriberFor(name: string | undefined): HeldFor | undefined {
    const { caller, upstream, context } = this.start;
    const model = name === undefined ? undefined : this.relay.catalog.current().models.get(name);
    const to = model?.routes.find((route) => route.upstream.name === upstream.route.upstream.name);
    if (!model || !to) return undefined;
    return { caller, model, route: to, next: () => context.nextTranscript() };
  }

  /** Passes an event of the provider, when what it costs is on the books. */
  private async pass(bytes: Buffer): Promise<void> {
    const { length } = bytes;
    await this.passOn(bytes);
    this.room.passed(length);
  }

  private async passOn(bytes: Buffer): Promise<void> {
    const isWide = hasManyMarks(bytes, maxMarks);
    // Looking at megabytes and reading them take some 30 ms each: others have their turn in between.
    if (bytes.length > maxBufferedBytes) await inTurn(() => undefined);
    const text = bytes.toString();
    const event = isWide ? undefined : eventJson(text);
    const type = stringOf(member(event, "type"));
    if (type === undefined) return this.fail({ name: "upstream_invalid", cause: "a frame that is no event" });
    try {
      const told = await this.account(event, type, text);
      this.send(told === text ? bytes : told);
      if (type === "response.done") await this.afterResponse();
      if (type === "conversation.item.input_audio_transcription.completed") await this.transcripts.prepare();
    } catch (thrown) {
      this.fail(failureOf(thrown));
    }
  }

  /** Counts an event, and gives it as the caller shall have it. Throws a CallFailure. */
  private async account(event: unknown, type: string, text: string): Promise<string> {
    const { context } = this.start;
    const id = responseIdOf(event, type);
    if (id !== undefined) return this.time ? text : this.accountResponse(id, event, type, text);
    if (type === "input_audio_buffer.committed") context.commit(itemIdOf(event));
    else if (type === "input_audio_buffer.speech_started") context.speak();
    else if (type === "conversation.item.input_audio_transcription.failed") this.transcripts.failed(itemIdOf(event));
    else if (type === "conversation.item.input_audio_transcription.completed") {
      await this.transcripts.completed(itemIdOf(event), member(event, "usage"));
    } else if (type === "error") return this.cleaned(event, text);
    if (type === "session.updated") context.updated(member(event, "session"));
    if (type.startsWith("session.") && member(member(event, "session"), "client_secret") !== undefined) {
      // It is the provider's own, by which a caller would go past the relay.
      const { client_secret: _, ...session } = member(event, "session") as Record<string, unknown>;
      return JSON.stringify({ ...(event as object), session });
    }
    return text;
  }

  private async accountResponse(id: string, event: unknown, type: string, text: string): Promise<string> {
    const { context } = this.start;
    const rid = await this.responses.begin(id, event, context);
    if (rid !== undefined) this.onBegun();
    this.busyAtMs = performance.now();
    const ended = this.responses.read(id, event, type);
    const usage = ended?.call.tally.usage;
    if (ended && !isOfConversation(event)) context.answeredBeside();
    else if (usage) context.answered(usage, ended.before, isWhole(event));
    return rid === undefined ? text : `{"headers":{"x-request-id":"${rid}"},${text.trimStart().slice(1)}`;
  }

  private onBegun(): void {
    this.turns += 1;
    this.relay.metrics.socketTurns.inc({ kind: "call" });
    this.asked.end();
    if (this.isLeft) this.stopResponses();
  }

  /** The next one is held for at once: its provider may begin it at any time. */
  private async afterResponse(): Promise<void> {
    if (this.isLeft && this.isDone()) return this.settleAll(EndCause.CLIENT_GONE);
    if (this.isLeaving) return this.closeIfIdle();
    if (!this.time) await this.start.ahead.prepare();
  }

  private cleaned(event: unknown, text: string): string {
    const error = readError(event);
    if (!error) return text;
    const told = this.asked.refuse({ ...(member(event, "error") as object), ...this.clean(error) });
    if (this.isLeft && this.isDone()) this.settleAll(EndCause.CLIENT_GONE);
    return JSON.stringify({ ...(event as object), error: told });
  }

  private send(text: string | Buffer): void {
    const { webSocket } = this.opened;
    if (webSocket.readyState !== 1) return;
    webSocket.send(text, { binary: false }, () => this.freeIfRoom());
    if (webSocket.bufferedAmount <= maxBufferedBytes) return;
    if (this.unreadSinceMs === Infinity) {
      this.unreadSinceMs = performance.now();
      this.room.awaitReader(() => this.cut("not_reading"));
    }
    this.fromUpstream.hold();
  }

  private freeIfRoom(): void {
    if (this.opened.webSocket.bufferedAmount <= maxBufferedBytes) {
      this.unreadSinceMs = Infinity;
      if (this.room.settle()) this.fromUpstream.free();
    }
    const hasRoom = this.start.upstream.webSocket.bufferedAmount <= maxBufferedBytes;
    if (hasRoom && !this.isTooFast()) this.fromCaller.free();
  }

  private isTooFast(): boolean {
    return this.frames > maxFrames || this.frameBytes > maxFrameBytes;
  }

  private refuse(failure: Failure, eventId?: string): void {
    const rid = createRid();
    const { metrics, log } = this.relay;
    const { socket, ip } = this.reported;
    metrics.socketTurns.inc({ kind: "refused" });
    const { name, cause } = failure;
    log.info({ rid, socket, ip, account: this.accountId, failure: name, cause }, "event refused");
    const { status } = renderFailure(failure, "A");
    noteRefusal(this.relay.refusals, this.start.caller, { rid, failure, status, endpoint: dialect.path });
    const { webSocket } = this.opened;
    this.refused += 1;
    if (webSocket.bufferedAmount > this.limits.maxBacklogBytes) return this.cut("not_reading");
    if (webSocket.readyState === 1) webSocket.send(failureEvent(failure, rid, eventId), ignore);
    if (this.refused >= this.limits.maxRefused) this.finish("misuse", EndCause.CLIENT_GONE);
  }

  /** Tells why the session cannot go on, and ends it. */
  private fail(failure: Failure, eventId?: string): void {
    if (this.isOver) return;
    this.refuse(failure, eventId);
    if (failure.name === "key_invalid") return this.finish("key", EndCause.CLIENT_GONE);
    if (failure.name === "upstream_invalid") return this.finish("upstream", EndCause.UPSTREAM_ERROR);
    const isOurs = failure.name === "service_unavailable";
    this.finish(isOurs ? "broken" : "no_hold", isOurs ? EndCause.UPSTREAM_CUT : EndCause.HOLD_EXHAUSTED);
  }

  private readonly onCut = (endCause: EndCause): void => {
    if (endCause === EndCause.HOLD_EXHAUSTED) return this.fail({ name: "balance" });
    this.finish(endCause === EndCause.DRAINED ? "drain" : "broken", endCause);
  };

  private closeIfIdle(): void {
    if (!this.isLeaving || !this.isDone()) return;
    if (this.end === "age") this.send(errorEvent(this.start.rid, tooOld));
    this.finish(this.end as ToldEnd, EndCause.COMPLETE);
  }

  private cut(end: SocketEnd): void {
    this.end = end;
    this.opened.webSocket.terminate();
  }

  /** Ends the session on both sides; what runs is charged as it stands. */
  private finish(end: ToldEnd, endCause: EndCause): void {
    if (this.isOver) return;
    this.end = end;
    this.settleAll(endCause);
    const { webSocket } = this.opened;
    if (webSocket.readyState === 1) closeSocket(this.opened, end);
  }

  private settleAll(endCause: EndCause): void {
    if (this.isOver) return;
    this.isOver = true;
    this.asked.end();
    clearTimeout(this.leftTimer);
    const { ahead, upstream } = this.start;
    this.responses.endAll(endCause);
    this.time?.end(endCause === EndCause.CLIENT_GONE ? EndCause.COMPLETE : endCause);
    ahead.end();
    void this.transcripts.close();
    this.intake.release();
    this.room[Symbol.dispose]();
    this.relay.health.leave(upstream.place);
    upstream.webSocket.close();
    setTimeout(() => upstream.webSocket.terminate(), countingMs).unref();
  }

  /** A provider is stopped at what it says to nobody, and waited for to count it. */
  private callerGone(): void {
    if (this.isOver) return;
    this.isLeft = true;
    this.stopResponses();
    if (this.room.settle()) this.fromUpstream.free();
    this.leftTimer = setTimeout(() => this.settleAll(EndCause.CLIENT_GONE), countingMs);
    if (this.isDone()) this.settleAll(EndCause.CLIENT_GONE);
  }

  private stopResponses(): void {
    this.responses.leave();
    const { webSocket } = this.start.upstream;
    for (const id of this.responses.ids) {
      if (id !== "") webSocket.send(JSON.stringify({ type: "response.cancel", response_id: id }), ignore);
    }
  }

  /** Whether no response is under way, nor asked for. */
  private isDone(): boolean {
    return this.responses.size === 0 && !this.asked.isOpen;
  }

  private upstreamGone(code: number): void {
    if (this.isOver) return;
    const { rid } = this.start;
    this.relay.log.info({ rid, code, running: this.responses.size }, "the provider ended a session");
    this.finish("upstream", EndCause.UPSTREAM_CUT);
  }
}
