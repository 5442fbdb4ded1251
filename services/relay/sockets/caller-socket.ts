import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { createRid } from "#shared/money/rid.ts";
import { closedFor, failureOf, handleCall, type Relay } from "../call.ts";
import { authorize, type Caller } from "../charge/admit.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure, expectedCauses, renderFailure, type Failure } from "../failures.ts";
import { refusalOfBody } from "../http/read.ts";
import type { BodyShare } from "../http/body-budget.ts";
import { inTurn, TurnShare } from "../http/turn-share.ts";
import { TurnSending } from "../upstream/send-turn.ts";
import { TurnLink, type RefusedSockets } from "../upstream/turn-link.ts";
import type { Made } from "../upstream/turn-socket.ts";
import { noteRefusal } from "../report/refusals.ts";
import { readClientEvent, type ClientEvent, type CreateEvent } from "./client-event.ts";
import {
  errorEvent,
  failureEvent,
  notInjected,
  notSteered,
  previousNotFound,
  tooManyWaiting,
  tooOld,
} from "./error-event.ts";
import { Intake } from "./intake.ts";
import { KeptResponses, type KeptResponse } from "./kept-responses.ts";
import { Lanes, type Waiting } from "./lanes.ts";
import { joinItems, prepareTurn, type TurnInput } from "./turn-input.ts";
import { closeSocket, type HeldSocket, type SocketEnd, type SocketLimits, type ToldEnd } from "./socket-end.ts";
import { textFrames } from "./text-frames.ts";
import { TurnRequest, turnHeaders } from "./turn-request.ts";
import { TurnResponse, type EndedResponse } from "./turn-response.ts";
import type { WarmUp } from "./warm-up.ts";

export type Opened = {
  rid: string;
  webSocket: WebSocket;
  /** What lies under it. */
  connection: Duplex;
  headers: IncomingHttpHeaders;
  caller: Caller;
  ip: string;
  keep: BodyShare;
  intake: BodyShare;
  refusedSockets: RefusedSockets;
};

const dialect = dialects["openai-responses"];

const ignore = (): void => undefined;
const noBytes = Buffer.alloc(0);

/** One socket of a caller: reads its events, runs its turns as calls, and keeps its responses. */
export class CallerSocket implements HeldSocket {
  readonly accountId: string;
  turns = 0;
  end: SocketEnd = "caller";
  private readonly opened: Opened;
  private readonly relay: Relay;
  private readonly limits: SocketLimits;
  private readonly headers: IncomingHttpHeaders;
  private readonly kept: KeptResponses;
  private readonly intake: Intake;
  private readonly lanes: Lanes;
  private readonly link: TurnLink;
  private readonly answers = new Set<TurnResponse>();
  private readonly openedAtMs = performance.now();
  private seenAtMs = this.openedAtMs;
  private pingedAtMs = this.openedAtMs;
  private busyAtMs = this.openedAtMs;
  private refused = 0;
  private isLeaving = false;

  constructor(opened: Opened, relay: Relay, limits: SocketLimits) {
    this.opened = opened;
    this.relay = relay;
    this.limits = limits;
    this.accountId = opened.caller.accountId;
    this.headers = turnHeaders(opened.headers);
    this.kept = new KeptResponses(opened.keep);
    this.intake = new Intake(opened.intake);
    this.link = new TurnLink(relay, { rid: opened.rid, accountId: this.accountId }, opened.refusedSockets);
    this.lanes = new Lanes(
      (turn) => this.takeTurn(turn),
      () => this.onIdle(),
    );
    const { webSocket, connection } = opened;
    connection.on("data", (chunk: Buffer) => this.arrive(chunk.length));
    // However short a frame is, it may begin a call.
    const share = new TurnShare(webSocket);
    webSocket.on("message", (data, isBinary) => {
      if (webSocket.readyState === 1) share.take(Infinity, () => this.receive(data as Buffer, isBinary));
    });
    webSocket.once("close", () => void this.onClosed());
  }

  leave(end: "age" | "drain" | "key"): void {
    if (this.isLeaving) return;
    this.isLeaving = true;
    this.end = end;
    if (this.lanes.running === 0) this.onIdle();
  }

  check(nowMs: number): void {
    const { maxAgeMs, idleMs, pingMs } = this.limits;
    const { webSocket } = this.opened;
    if (nowMs - this.openedAtMs > maxAgeMs) this.leave("age");
    if (this.lanes.running === 0 && nowMs - this.busyAtMs > idleMs) this.close("idle");
    if (this.intake.isSlow(nowMs)) this.close("slow_frame");
    this.link.check(nowMs, pingMs);
    const silentMs = nowMs - this.seenAtMs;
    if (silentMs > 3 * pingMs) this.cut("silent");
    else if (silentMs > pingMs && nowMs - this.pingedAtMs > pingMs) {
      this.pingedAtMs = nowMs;
      webSocket.ping(undefined, undefined, ignore);
    }
  }

  private arrive(bytes: number): void {
    this.seenAtMs = performance.now();
    // What still comes on a socket that is closing is not kept.
    if (this.opened.webSocket.readyState !== 1 || this.intake.arrive(bytes)) return;
    this.refuse({ name: "service_unavailable", cause: "no room for the frames of a socket" });
    this.close("no_room");
  }

  private receive(bytes: Buffer, isBinary: boolean): void {
    if (this.opened.webSocket.readyState !== 1) return;
    let event: ClientEvent;
    try {
      if (isBinary) throw new CallFailure({ name: "invalid_json", cause: "a binary frame" });
      event = readClientEvent(bytes, dialect.mediaPlaces);
    } catch (thrown) {
      this.intake.wait(0);
      return this.refuse(failureOf(refusalOfBody(thrown)));
    }
    if (event.kind === "create") return this.queue(event, bytes.length);
    this.intake.wait(0);
    if (event.kind === "steer") return this.sendRefusal(notSteered(event.input, event.previousId));
    if (event.kind === "inject") return this.sendRefusal(notInjected(event.input, event.responseId));
    this.countRefused();
  }

  private countRefused(): void {
    this.refused += 1;
    if (this.refused >= this.limits.maxRefused) this.close("misuse");
  }

  private queue(event: CreateEvent, bytes: number): void {
    const { streamId } = event;
    if (!this.intake.wait(bytes)) {
      this.intake.leave(bytes);
      return this.refuse({ name: "service_unavailable", cause: "no room for the frames of a socket" }, streamId);
    }
    if (this.lanes.add({ event, bytes })) return;
    this.intake.leave(bytes);
    this.sendRefusal(errorEvent({ status: 429, error: tooManyWaiting, streamId }));
  }

  private async takeTurn(waiting: Waiting): Promise<void> {
    const { bytes, event } = waiting;
    const streamId = event?.streamId;
    try {
      if (this.opened.webSocket.readyState !== 1) return;
      if (this.isLeaving) return this.refuseLeaving(streamId);
      const closed = closedFor(this.relay);
      if (closed) return this.refuse(closed, streamId);
      await this.runTurn(waiting);
    } catch (thrown) {
      const failure = failureOf(refusalOfBody(thrown));
      this.refuse(failure, streamId);
      if (failure.name === "key_invalid") this.leave("key");
    } finally {
      this.intake.leave(bytes);
      this.busyAtMs = performance.now();
    }
  }

  /** Takes the frame out of the turn that waited, so that a long answer keeps of it what is new only. */
  private prepare(waiting: Waiting): TurnInput | undefined {
    const { event } = waiting;
    waiting.event = undefined;
    return (
      event &&
      prepareTurn(
        event,
        (id) => this.kept.take(id),
        (made) => this.link.holds(made),
      )
    );
  }

  private async runTurn(waiting: Waiting): Promise<void> {
    const input = this.prepare(waiting);
    if (!input) return;
    const { streamId, missingId, before, added, warmUp } = input;
    const turn = new TurnSending(this.link, input.continued);
    input.continued = undefined;
    const onEnded = ({ id, items }: EndedResponse): void =>
      this.keep(id, before, [added, ...items.map((item) => Buffer.from(item))], turn.made);
    try {
      // What is not stored anywhere can be nowhere else; the provider's clients then send all of it.
      if (missingId !== undefined && (warmUp || !input.mayStore)) {
        return this.sendRefusal(errorEvent({ status: 400, error: previousNotFound(missingId), streamId }));
      }
      await (warmUp ? this.warmUp(warmUp, onEnded) : this.call(input, turn, onEnded));
    } finally {
      this.kept.letGo(before);
    }
  }

  private keep(id: string, before: KeptResponse | undefined, lists: Buffer[], made: Made | undefined): void {
    this.refused = 0;
    if (this.opened.webSocket.readyState !== 1) return;
    const items = joinItems(lists.filter((list) => list.length > 0));
    this.kept.keep(id, before, items, made);
  }

  /** A turn is a call like any other: its key is checked, and it is held, charged and logged by an id of its own. */
  private async call(input: TurnInput, turn: TurnSending, onEnded: (ended: EndedResponse) => void): Promise<void> {
    const { ip, rid: socket } = this.opened;
    this.turns += 1;
    this.refused = 0;
    this.relay.metrics.socketTurns.inc({ kind: "call" });
    const response: TurnResponse = new TurnResponse({
      ...input,
      send: (texts, sent) => this.write(response, texts, sent),
      onEnded,
      onBroken: () => this.close("broken"),
    });
    const request = new TurnRequest(this.headers, input.body);
    input.body = noBytes;
    this.answers.add(response);
    await handleCall({ request, response, ip, dialect, socket, turn }, this.relay);
    if (!response.closed) await once(response, "close");
    this.answers.delete(response);
    // The key is wrong from now on, so every later turn would be refused as well.
    if (response.statusCode === 401) this.leave("key");
  }

  private async warmUp({ id, frames }: WarmUp, onEnded: (ended: EndedResponse) => void): Promise<void> {
    this.relay.metrics.socketTurns.inc({ kind: "warm_up" });
    const { caller, webSocket } = this.opened;
    caller.isAuthorized = false;
    await authorize(this.relay, caller);
    onEnded({ id, items: [] });
    for (const frame of frames) webSocket.send(frame, ignore);
  }

  private refuseLeaving(streamId: string | undefined): void {
    if (this.end === "age") return this.sendRefusal(errorEvent({ status: 400, error: tooOld, streamId }));
    this.refuse({ name: "service_unavailable", cause: expectedCauses.stopping }, streamId);
  }

  private refuse(failure: Failure, streamId?: string): void {
    const rid = createRid();
    const { metrics, log } = this.relay;
    const { rid: socket, ip } = this.opened;
    metrics.socketTurns.inc({ kind: "refused" });
    log.info({ rid, socket, ip, account: this.accountId, failure: failure.name, cause: failure.cause }, "turn refused");
    const { status } = renderFailure(failure, "A");
    noteRefusal(this.relay.refusals, this.opened.caller, { rid, failure, status, endpoint: dialect.path });
    this.sendRefusal(failureEvent(failure, rid, streamId));
  }

  /** Answers without a call. Who does not read, or sends one wrong event behind the other, gets no answer for each. */
  private sendRefusal(text: string): void {
    const { webSocket } = this.opened;
    if (webSocket.bufferedAmount > this.limits.maxBacklogBytes) return this.cut("not_reading");
    webSocket.send(text, ignore);
    this.countRefused();
  }

  /** Of a socket that takes no more its caller has left: an answer must not be read on as fast as nobody takes it. */
  private write(response: TurnResponse, texts: string[], sent: () => void): void {
    const { webSocket, connection } = this.opened;
    if (webSocket.readyState !== 1) return void response.destroy();
    connection.write(textFrames(texts), (error) => (error ? void response.destroy() : sent()));
  }

  private onIdle(): void {
    if (!this.isLeaving) return;
    if (this.end === "age")
      this.opened.webSocket.send(errorEvent({ status: 400, error: tooOld, streamId: undefined }), ignore);
    if (this.end === "age" || this.end === "drain" || this.end === "key") this.close(this.end);
  }

  private close(end: ToldEnd): void {
    const { webSocket } = this.opened;
    if (webSocket.readyState !== 1) return;
    this.end = end;
    closeSocket(this.opened, end);
  }

  /** Closes without a word to who does not hear it. */
  private cut(end: SocketEnd): void {
    this.end = end;
    this.opened.webSocket.terminate();
  }

  private async onClosed(): Promise<void> {
    // As over HTTP: each call goes on without its caller, or is cut, and is charged for what was served.
    await Promise.all(Array.from(this.answers, (answer) => inTurn(() => void answer.destroy())));
    this.link.close();
    this.kept.clear();
    this.intake.release();
  }
}
