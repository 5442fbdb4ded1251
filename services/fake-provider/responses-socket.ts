import type { IncomingMessage, ServerResponse } from "node:http";
import { type Duplex, Writable } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { type Fields, isObject } from "./dialect.ts";
import { refuseHandshake } from "./handshake.ts";
import type { ReceivedRequest } from "./receive.ts";
import { type Fake, serveRequest } from "./serve.ts";

/** What callers do with the sockets of responses, and what tests do to them. */
export type ResponsesSockets = {
  /** Frames that callers sent, oldest first. */
  frames: Fields[];
  /** The heads of the handshakes, oldest first. */
  handshakes: IncomingMessage["headers"][];
  open: Set<WebSocket>;
  /** Answers handshakes with this status instead. */
  refusedWith: number | undefined;
};

export const createResponsesSockets = (): ResponsesSockets => ({
  frames: [],
  handshakes: [],
  open: new Set(),
  refusedWith: undefined,
});

const server = new WebSocketServer({ noServer: true, perMessageDeflate: false });

/** Takes a handshake for responses as OpenAI does: with a key, and without a model. */
export function serveResponses(
  { fake, sockets }: { fake: Fake; sockets: ResponsesSockets },
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  sockets.handshakes.push(request.headers);
  if (sockets.refusedWith !== undefined) return refuseHandshake(socket, sockets.refusedWith, "No socket now.");
  if (!request.headers.authorization) return refuseHandshake(socket, 401, "Missing bearer authentication");
  server.handleUpgrade(request, socket, head, (webSocket) => {
    sockets.open.add(webSocket);
    webSocket.once("close", () => sockets.open.delete(webSocket));
    const connection = new Connection(fake, sockets, webSocket, request.headers);
    webSocket.on("error", () => undefined);
    webSocket.on("message", (data) => connection.receive((data as Buffer).toString()));
  });
}

const invalid = (message: string, more: Fields = {}): Fields => ({
  type: "invalid_request_error",
  code: null,
  param: null,
  message,
  ...more,
});

// Implied by the socket, or not to be had on it.
const foreignFields = ["stream", "background"];

/** A response that can be continued on its connection. */
type Kept = { id: string; items: unknown[]; isStored: boolean };

const itemsOf = (input: unknown): unknown[] => {
  if (typeof input === "string") return [{ role: "user", content: input }];
  return Array.isArray(input) ? input : [];
};

/** A connection, which runs one response at a time and remembers what it has said. */
class Connection {
  private readonly fake: Fake;
  private readonly sockets: ResponsesSockets;
  private readonly webSocket: WebSocket;
  private readonly headers: IncomingMessage["headers"];
  private readonly kept = new Map<string, Kept>();
  private latest = "";
  private turn: Promise<void> = Promise.resolve();

  constructor(fake: Fake, sockets: ResponsesSockets, webSocket: WebSocket, headers: IncomingMessage["headers"]) {
    this.fake = fake;
    this.sockets = sockets;
    this.webSocket = webSocket;
    this.headers = headers;
  }

  receive(text: string): void {
    const frame: unknown = JSON.parse(text);
    if (!isObject(frame) || frame["type"] !== "response.create") return this.refuse(invalid("Unknown event type."));
    this.sockets.frames.push(frame);
    this.turn = this.turn.then(() => this.run(frame));
  }

  private refuse(error: Fields): void {
    this.webSocket.send(JSON.stringify({ type: "error", status: 400, error }));
  }

  private async run({ type: _type, previous_response_id: previousId, ...body }: Fields): Promise<void> {
    const foreign = foreignFields.find((name) => body[name] !== undefined);
    if (foreign) {
      return this.refuse(invalid(`Unknown parameter: '${foreign}'.`, { code: "unknown_parameter", param: foreign }));
    }
    const before = typeof previousId === "string" ? this.find(previousId) : undefined;
    if (typeof previousId === "string" && !before) {
      const told = { code: "previous_response_not_found", param: "previous_response_id" };
      return this.refuse(invalid(`Previous response with id '${previousId}' not found.`, told));
    }
    const items = [...(before?.items ?? []), ...itemsOf(body["input"])];
    const response = new FrameResponse(this.webSocket, (answer) => this.keep(answer, items, body["store"] !== false));
    const whole = { ...body, input: items, stream: true };
    const received: ReceivedRequest = {
      method: "POST",
      path: "/v1/responses",
      headers: { ...this.headers, "content-type": "application/json" },
      rawBody: Buffer.from(JSON.stringify(whole)),
      body: whole,
      receivedAt: Date.now(),
    };
    await serveRequest(this.fake, received, response as unknown as ServerResponse);
  }

  /** Of what is not stored, only the latest is remembered. */
  private find(id: string): Kept | undefined {
    const kept = this.kept.get(id);
    return kept && (kept.isStored || id === this.latest) ? kept : undefined;
  }

  private keep(answer: Fields, items: unknown[], isStored: boolean): void {
    const id = String(answer["id"]);
    this.kept.set(id, { id, isStored, items: [...items, ...itemsOf(answer["output"])] });
    this.latest = id;
  }
}

const dataStart = "data: ";

/** What would be an answer over HTTP, as frames of a socket. */
class FrameResponse extends Writable {
  statusCode = 200;
  /** What a fault breaks off. */
  readonly socket = { destroy: () => this.webSocket.terminate(), resetAndDestroy: () => this.webSocket.terminate() };
  private readonly webSocket: WebSocket;
  private readonly onFinal: (answer: Fields) => void;
  private readonly headers: Record<string, unknown> = {};
  private rest = "";
  private hasEnded = false;

  constructor(webSocket: WebSocket, onFinal: (answer: Fields) => void) {
    super();
    this.webSocket = webSocket;
    this.onFinal = onFinal;
    webSocket.once("close", () => this.destroy());
  }

  setHeader(name: string, value: unknown): void {
    this.headers[name] = value;
  }

  writeHead(status: number, headers: Record<string, unknown>): void {
    this.statusCode = status;
    Object.assign(this.headers, headers);
  }

  flushHeaders(): void {
    // A socket has none.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.rest += chunk.toString();
    if (this.isStream()) this.sendEvents();
    done();
  }

  override _final(done: () => void): void {
    if (!this.isStream()) this.sendRefusal();
    // An answer that breaks off ends its socket, by the rules.
    else if (!this.hasEnded) this.webSocket.close(1011);
    done();
  }

  private isStream(): boolean {
    return String(this.headers["content-type"]).startsWith("text/event-stream");
  }

  private sendEvents(): void {
    const events = this.rest.split(/\r?\n\r?\n/);
    this.rest = events.pop() ?? "";
    for (const event of events) {
      const line = event.split(/\r?\n/).find((text) => text.startsWith(dataStart));
      if (line === undefined) continue;
      const json = JSON.parse(line.slice(dataStart.length)) as Fields;
      const { type, response } = json;
      const isLast = ["response.completed", "response.incomplete", "response.failed", "error"].includes(String(type));
      this.hasEnded ||= isLast;
      if (isLast && isObject(response)) this.onFinal(response);
      this.webSocket.send(JSON.stringify(json));
    }
  }

  private sendRefusal(): void {
    const { error } = JSON.parse(this.rest) as { error: Fields };
    const wait = this.headers["retry-after"];
    const headers = wait === undefined ? {} : { headers: { "retry-after": `${Number(wait)}` } };
    this.webSocket.send(JSON.stringify({ type: "error", status: this.statusCode, error, ...headers }));
  }
}
