import { errors } from "undici";
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { member, stringOf } from "../dialects/dialect.ts";
import { eventJson } from "../dialects/sse.ts";
import type { ReplyPlace } from "../http/reply-room.ts";
import { Flow } from "./flow.ts";
import { FrameRoom } from "./frame-room.ts";
import { SendError, type Answer, type UpstreamRequest } from "./send.ts";

// Within a text, quotes are escaped, so that this is met in no text.
const finalTypes = /"type":\s*"(?:response\.(?:completed|incomplete|failed)|error)"/;
const finals = new Set(["response.completed", "response.incomplete", "response.failed", "error"]);
const lineBreaks = /[\r\n]+/g;
const noCloseFrame = 1006;
const keptHeaders = ["retry-after"];

/** A response that is the latest of a socket, which can continue it by its id. */
export type Made = { socket: TurnSocket; id: string };

export type TurnRequest = Pick<UpstreamRequest, "signal" | "totalTimeoutMs" | "onOver"> & {
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
};

/** Why a socket said no to a turn, in the provider's own words. */
export const codeOfRefusal = (error: unknown): string | undefined => stringOf(member(error, "code"));

/** A turn under way on a socket: its events are those of a stream over HTTP, and so is a refusal before the first. */
export class TurnAnswer extends Flow implements Answer {
  status = 0;
  headers: Answer["headers"] = {};
  /** The error of a turn that was refused. */
  refusal: unknown;
  /** Where its response is, when it has ended and can be continued. */
  made: Made | undefined;
  private readonly socket: TurnSocket;
  private readonly request: TurnRequest;
  private readonly settle: (answer: TurnAnswer | undefined | SendError) => void;
  private readonly deadline: NodeJS.Timeout;
  private waiting: NodeJS.Timeout | undefined;
  private isOver = false;

  constructor(socket: TurnSocket, request: TurnRequest, settle: TurnAnswer["settle"]) {
    super();
    this.socket = socket;
    this.request = request;
    this.settle = settle;
    this.deadline = setTimeout(TurnAnswer.expire, request.totalTimeoutMs, this);
    this.wait(request.firstByteTimeoutMs);
    request.signal.isBillable = true;
    request.signal.abort = () => {
      request.signal.isAborted = true;
      this.abort();
    };
  }

  /** Takes a frame; says whether it was the turn's last. */
  take(bytes: Buffer): boolean {
    const text = bytes.toString();
    const event = finalTypes.test(text) ? eventJson(text) : undefined;
    const type = stringOf(member(event, "type")) ?? "";
    const isFinal = finals.has(type);
    if (this.status === 0 && type === "error" && this.refuse(event)) return true;
    if (this.status === 0) this.begin();
    else this.waiting?.refresh();
    if (isFinal) this.end(type, event);
    this.give(Buffer.from(`data: ${lineBreaks.test(text) ? text.replaceAll(lineBreaks, " ") : text}\n\n`));
    if (isFinal) this.finish();
    return isFinal;
  }

  /** The socket is gone. */
  lose(code: number): void {
    // By a close frame a provider says that it takes no more, also when it has begun nothing.
    if (this.status === 0 && code !== noCloseFrame) {
      this.stopWaiting();
      return this.settle(undefined);
    }
    this.fail(new Error(`the upstream's socket closed with ${code}`));
  }

  pause(): void {
    clearTimeout(this.waiting);
    this.socket.pause();
  }

  resume(): void {
    if (!this.isOver) this.wait(this.request.idleTimeoutMs);
    this.socket.resume();
  }

  abort(): void {
    if (this.isOver) return;
    this.fail(new Error("the answer is not wanted any more"));
    // Nothing else stops a response.
    this.socket.cut();
  }

  /** Nothing is read for want of room, which is not the upstream's silence. */
  stopClock(): void {
    clearTimeout(this.waiting);
  }

  startClock(): void {
    const { firstByteTimeoutMs, idleTimeoutMs } = this.request;
    if (!this.isOver) this.wait(this.status === 0 ? firstByteTimeoutMs : idleTimeoutMs);
  }

  private begin(): void {
    this.status = 200;
    this.headers = { "content-type": "text/event-stream" };
    this.wait(this.request.idleTimeoutMs);
    this.settle(this);
  }

  /** An error with a status stands for an answer of HTTP; any other is an event of the stream. */
  private refuse(event: unknown): boolean {
    const [status, error] = [member(event, "status"), member(event, "error")];
    if (typeof status !== "number" || status < 400 || status > 599 || typeof error !== "object") return false;
    this.status = status;
    this.refusal = error;
    const told = Object.entries((member(event, "headers") ?? {}) as object);
    const kept = told.filter(([name, value]) => keptHeaders.includes(name) && typeof value === "string");
    this.headers = { "content-type": "application/json", ...Object.fromEntries(kept) };
    this.request.signal.isBillable = false;
    this.stopWaiting();
    this.give(Buffer.from(JSON.stringify({ error })));
    this.finish();
    this.settle(this);
    return true;
  }

  private end(type: string, event: unknown): void {
    const id = stringOf(member(member(event, "response"), "id"));
    const isWhole = type === "response.completed" || type === "response.incomplete";
    if (isWhole && id) this.made = { socket: this.socket, id };
    // Whatever comes behind an error must not be taken for the next turn's.
    if (!isWhole) this.socket.leave();
    this.over();
  }

  private fail(error: Error): void {
    if (this.isOver) return;
    this.over();
    if (this.status === 0) this.settle(new SendError(error));
    else this.break(error);
  }

  /** What was refused may be sent on; whoever sends it says when it is over. */
  private over(): void {
    this.stopWaiting();
    this.request.onOver();
  }

  private wait(forMs: number): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(TurnAnswer.expire, forMs, this);
  }

  private stopWaiting(): void {
    this.isOver = true;
    clearTimeout(this.waiting);
    clearTimeout(this.deadline);
  }

  private static expire(this: void, turn: TurnAnswer): void {
    const TimeoutError = turn.status === 0 ? errors.HeadersTimeoutError : errors.BodyTimeoutError;
    turn.fail(new TimeoutError("the upstream's socket has said nothing for too long"));
    turn.socket.cut();
  }
}

export type TakenSocket = { webSocket: WebSocket; connection: Duplex; upstreamId: string };

/** A socket to an upstream, which runs one turn at a time. */
export class TurnSocket {
  readonly upstreamId: string;
  readonly openedAtMs = performance.now();
  private readonly webSocket: WebSocket;
  private readonly room: FrameRoom;
  private turn: TurnAnswer | undefined;
  private isPaused = false;
  /** Of frames that were given on while nobody took more. */
  private keptBytes = 0;
  private isTaken = false;
  /** Whether the relay has done with it. */
  isLeaving = false;
  private seenAtMs = this.openedAtMs;
  private pingedAtMs = this.openedAtMs;

  constructor({ webSocket, connection, upstreamId }: TakenSocket, place: ReplyPlace, onClosed: (code: number) => void) {
    this.webSocket = webSocket;
    this.upstreamId = upstreamId;
    const hold = (): void => {
      webSocket.pause();
      this.turn?.stopClock();
    };
    const free = (): void => {
      if (this.isPaused) return;
      this.turn?.startClock();
      webSocket.resume();
    };
    this.room = new FrameRoom(place, { unreadBytes: () => this.keptBytes, hold, free });
    this.room.watch(webSocket, connection);
    webSocket.on("message", (data, isBinary) => this.receive(data as Buffer, isBinary));
    webSocket.on("pong", () => (this.seenAtMs = performance.now()));
    webSocket.on("error", () => undefined);
    webSocket.once("close", (code) => {
      const { turn } = this;
      this.turn = undefined;
      this.room[Symbol.dispose]();
      onClosed(code);
      turn?.lose(code);
    });
  }

  get isOpen(): boolean {
    return !this.isLeaving && this.webSocket.readyState === 1;
  }

  /** Keeps it for a turn that is about to be written; false where it has one. */
  reserve(): boolean {
    if (this.isTaken || this.turn || !this.isOpen) return false;
    this.isTaken = true;
    return true;
  }

  /** Gives back what was reserved. */
  free(): void {
    this.isTaken = false;
    if (this.isLeaving && !this.turn) this.webSocket.close(1000);
  }

  /**
   * Runs a turn; resolves when it has begun or was refused, with undefined where the provider closed the socket
   * instead: both are not over then. Rejects with a SendError when nobody knows what became of it.
   */
  run(frame: Buffer, request: TurnRequest): Promise<TurnAnswer | undefined> {
    return new Promise((resolve, reject) => {
      this.turn = new TurnAnswer(this, request, (outcome) =>
        outcome instanceof SendError ? reject(outcome) : resolve(outcome),
      );
      this.webSocket.send(frame, { binary: false }, () => undefined);
    });
  }

  /** Takes no more turns, and closes when the one that runs is over. */
  leave(): void {
    this.isLeaving = true;
    if (!this.turn && !this.isTaken) this.webSocket.close(1000);
  }

  cut(): void {
    this.isLeaving = true;
    this.webSocket.terminate();
  }

  pause(): void {
    this.isPaused = true;
    this.webSocket.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.keptBytes = 0;
    if (this.room.settle()) this.webSocket.resume();
  }

  /** Whoever does not answer for so long is gone; what runs has limits of its own. */
  check(nowMs: number, pingMs: number): void {
    if (this.turn || this.webSocket.readyState !== 1) return;
    const silentMs = nowMs - this.seenAtMs;
    if (silentMs > 3 * pingMs) return this.webSocket.terminate();
    if (silentMs <= pingMs || nowMs - this.pingedAtMs <= pingMs) return;
    this.pingedAtMs = nowMs;
    this.webSocket.ping(undefined, undefined, () => undefined);
  }

  private receive(bytes: Buffer, isBinary: boolean): void {
    this.seenAtMs = performance.now();
    this.take(bytes, isBinary);
    if (this.isPaused) this.keptBytes += bytes.length;
    this.room.passed(bytes.length);
  }

  private take(bytes: Buffer, isBinary: boolean): void {
    // What nobody asked for.
    if (!this.turn) return;
    if (isBinary) return this.cut();
    const { turn } = this;
    if (!turn.take(bytes) || this.turn !== turn) return;
    this.turn = undefined;
    this.free();
  }
}
