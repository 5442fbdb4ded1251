import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import { freePieces, leastPieceBytes } from "../body.ts";
import { TurnShare } from "../turn-share.ts";
import { directLimits, readDirectHead, type DirectHead } from "./read-head.ts";
import { DirectRequest } from "./request.ts";
import { DirectResponse } from "./response.ts";
import { comesInTinyChunks } from "./tiny-chunks.ts";

/** How long a request may be on its way before Node's own timers for slow callers take over. */
const patienceMs = 1_000;
const lookEveryMs = 1_000;
/** What a caller may send ahead while he is answered; then he is not read. */
const aheadBytes = directLimits.headBytes + directLimits.bodyBytes;
const aheadPieces = 64;

type DirectServing = {
  server: Server;
  paths: ReadonlySet<string>;
  keepAliveMs: number;
  /** Node's own way to serve a connection. */
  serveByNode: (socket: Socket) => void;
};

/** One connection, until something comes on it that is Node's to serve. */
class DirectConnection {
  readonly socket: Socket;
  private readonly serving: DirectServing;
  private readonly onHandedOver: (connection: DirectConnection) => void;
  /** What has come and is not taken yet. */
  private pieces: Buffer[] = [];
  private bytes = 0;
  private head: DirectHead | undefined;
  private response: DirectResponse | undefined;
  /** When the first byte came of what waits, or the last answer went. */
  private sinceMs = performance.now();
  private isUsed = false;
  private hasTurn = false;

  constructor(socket: Socket, serving: DirectServing, onHandedOver: (connection: DirectConnection) => void) {
    this.socket = socket;
    this.serving = serving;
    this.onHandedOver = onHandedOver;
    socket.on("data", this.onData).on("end", this.onEnd).on("drain", this.onDrain);
    socket.on("close", this.onClose).on("error", ignore);
  }

  /** Hands over who is slow, and closes what nobody uses any more. */
  look(nowMs: number): void {
    if (this.response || this.hasTurn) return;
    const waitedMs = nowMs - this.sinceMs;
    if (!this.isUsed || this.bytes > 0) {
      if (waitedMs >= patienceMs) this.handOver();
    } else if (waitedMs >= this.serving.keepAliveMs) this.socket.destroySoon();
  }

  private readonly onData = (chunk: Buffer): void => {
    if (this.bytes === 0) this.sinceMs = performance.now();
    this.pieces.push(chunk);
    this.bytes += chunk.length;
    if (!this.response && !this.hasTurn) this.takeRequest();
    else if (this.bytes > aheadBytes || this.pieces.length > aheadPieces) this.socket.pause();
  };

  /** Begins to answer the request that has come, if all of it has. */
  private takeRequest(): void {
    const { serving, socket } = this;
    if (this.head && this.bytes < this.head.end) return;
    const [first] = this.pieces;
    const bytes = first && this.pieces.length === 1 ? first : Buffer.concat(this.pieces, this.bytes);
    this.head ??= readDirectHead(bytes, serving.paths);
    const { head } = this;
    if (!head && comesInTinyChunks(bytes, freePieces, leastPieceBytes)) return this.refuse(bytes);
    if (!head) return this.handOverInTurn();
    if (bytes.length < head.end) return;
    this.head = undefined;
    this.isUsed = true;
    this.pieces = bytes.length > head.end ? [bytes.subarray(head.end)] : [];
    this.bytes = bytes.length - head.end;
    const request = new DirectRequest(socket, head, bytes.subarray(head.bodyStart, head.end));
    const keepAliveSeconds = Math.floor(serving.keepAliveMs / 1_000);
    const response = new DirectResponse(request, { socket, keepAliveSeconds, onFinished: this.onFinished });
    this.response = response;
    // To all who listen for requests: they read of these objects what they read of Node's.
    const { server } = serving;
    server.emit("request", request as unknown as IncomingMessage, response as unknown as ServerResponse);
  }

  private readonly onFinished = (shouldKeepAlive: boolean): void => {
    const { socket } = this;
    this.response = undefined;
    if (!shouldKeepAlive) return socket.destroySoon();
    if (socket.destroyed) return;
    this.sinceMs = performance.now();
    if (socket.isPaused()) socket.resume();
    if (this.bytes === 0) return;
    // Others come between the calls that one caller has sent at once.
    this.hasTurn = true;
    setImmediate(this.takeTurn);
  };

  private readonly takeTurn = (): void => {
    this.hasTurn = false;
    if (!this.socket.destroyed) this.takeRequest();
  };

  /** As Node does: a caller who closes his side has left, and half a request is wrong. */
  private readonly onEnd = (): void => {
    const { socket, response } = this;
    if (response || this.bytes === 0) return void socket.end();
    const error = Object.assign(new Error("the request ends before its end"), { code: "HPE_INVALID_EOF_STATE" });
    this.serving.server.emit("clientError", error, socket);
  };

  private readonly onDrain = (): void => void this.response?.emit("drain");

  private readonly onClose = (): void => this.response?.lose();

  /** Node reads all at once of what has come, which is dear where it is thousands of chunks, on each connection. */
  private handOverInTurn(): void {
    this.hasTurn = true;
    new TurnShare(this.socket).take(this.bytes, () => this.handOver());
  }

  /** Refuses as Node would what it cannot read, before it reads a thousand chunks. */
  private refuse(rawPacket: Buffer): void {
    const { socket, serving } = this;
    this.pieces = [];
    this.hasTurn = true;
    socket.off("data", this.onData).off("end", this.onEnd).resume();
    const error = Object.assign(new Error("the body comes in tiny chunks"), { code: "HPE_USER", rawPacket });
    serving.server.emit("clientError", error, socket);
  }

  /** Gives the connection, with what has come on it, to Node for good. */
  private handOver(): void {
    const { socket, pieces } = this;
    socket.off("data", this.onData).off("end", this.onEnd).off("drain", this.onDrain);
    socket.off("close", this.onClose).off("error", ignore);
    this.pieces = [];
    if (socket.destroyed) return;
    socket.pause();
    if (this.bytes > 0) socket.unshift(Buffer.concat(pieces, this.bytes));
    this.serving.serveByNode(socket);
    socket.resume();
    this.onHandedOver(this);
  }

  /** Closes the connection when nothing is asked or answered on it. */
  closeIdle(): void {
    if (!this.response && this.bytes === 0) this.socket.destroySoon();
  }
}

function ignore(): void {
  // A connection that breaks is closed, and that is told.
}

/**
 * Serves calls on the bare connections of a server, before Node makes a request of them: a call costs the relay about
 * an eighth less than through node:http (the figures are in deploy/bench). What is not a plain call goes to Node with
 * all that came of it, and so does everything behind it on that connection.
 */
export function serveDirect(
  server: Server,
  { paths, keepAliveMs }: Pick<DirectServing, "paths" | "keepAliveMs">,
): void {
  const event = server instanceof TlsServer ? "secureConnection" : "connection";
  const [own, ...others] = server.listeners(event);
  if (!own || others.length > 0) throw new Error(`node:http listens to "${event}" in another way than is known`);
  server.off(event, own as (socket: Socket) => void);
  const serveByNode = (socket: Socket): void => void own.call(server, socket);
  const serving: DirectServing = { server, paths, keepAliveMs, serveByNode };
  const connections = new Set<DirectConnection>();
  const leave = (connection: DirectConnection): void => void connections.delete(connection);
  server.on(event, (socket: Socket) => {
    const connection = new DirectConnection(socket, serving, leave);
    connections.add(connection);
    socket.once("close", () => leave(connection));
  });
  // Node knows only of those that it was given.
  const closeIdle = server.closeIdleConnections.bind(server);
  server.closeIdleConnections = () => {
    closeIdle();
    for (const connection of connections) connection.closeIdle();
  };
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const connection of connections) connection.look(nowMs);
  }, lookEveryMs).unref();
  server.once("close", () => clearInterval(timer));
}
