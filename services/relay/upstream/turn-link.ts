import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import type { Logger } from "#shared/process/log.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { ReplyRoom } from "../http/reply-room.ts";
import type { Metrics } from "../metrics.ts";
import { isSeenByProxy, socketAddress, socketOptions } from "./socket-options.ts";
import { TurnSocket, type Made } from "./turn-socket.ts";

// Providers close theirs after an hour, wherever a turn then is.
const maxAgeMs = 55 * 60 * 1_000;
// An upstream that opens no socket is asked for none for a while: its turns go over HTTP.
const refusedForMs = 60_000;
// The upgrade itself runs no model.
const upgradeMs = 5_000;

export type LinkDeps = {
  metrics: Pick<Metrics, "upstreamSockets" | "upstreamTurns">;
  log: Logger;
  limits: { maxEventBytes: number };
  replies: ReplyRoom;
};

/** What the process has learnt: until when upstreams are asked for no sockets, by their id. */
export type RefusedSockets = Map<string, number>;

/** The caller's socket, and whose it is. */
type SocketOwner = { rid: string; accountId: string };

type Handshake = { path: string; headers: readonly string[] };

/**
 * The socket to an upstream that stands behind a caller's socket: one at most, and one turn on it at a time. Whoever
 * finds none here uses HTTP. It moves to another upstream when two turns in a row go there.
 */
export class TurnLink {
  private readonly deps: LinkDeps;
  private readonly owner: SocketOwner;
  private readonly refused: RefusedSockets;
  private socket: TurnSocket | undefined;
  private isOpening = false;
  private isClosed = false;
  private elsewhere = "";

  constructor(deps: LinkDeps, owner: SocketOwner, refused: RefusedSockets) {
    this.deps = deps;
    this.owner = owner;
    this.refused = refused;
  }

  /** Whether a response can be continued by its id. */
  holds(made: Made | undefined): boolean {
    return made !== undefined && made.socket === this.socket && made.socket.isOpen;
  }

  /** A socket to this upstream, kept for the turn that asks; undefined where the turn goes over HTTP. */
  take(upstream: Upstream, handshake: Handshake): TurnSocket | undefined | Promise<TurnSocket | undefined> {
    if (!upstream.hasResponsesSocket || this.isOpening || this.isClosed || isSeenByProxy(upstream)) return undefined;
    const { socket } = this;
    if (socket?.isOpen && socket.upstreamId === upstream.id) {
      this.elsewhere = "";
      if (performance.now() - socket.openedAtMs <= maxAgeMs) return socket.reserve() ? socket : undefined;
    } else if (socket?.isOpen && this.elsewhere !== upstream.id) {
      this.elsewhere = upstream.id;
      return undefined;
    }
    if ((this.refused.get(upstream.id) ?? 0) > performance.now()) return undefined;
    socket?.leave();
    this.elsewhere = "";
    return this.open(upstream, handshake);
  }

  /** Counts how a turn went that had a socket. */
  count(kind: "continued" | "whole" | "http"): void {
    this.deps.metrics.upstreamTurns.inc({ kind });
  }

  /** Closes when the turn that runs is over, which goes on also without its caller. */
  close(): void {
    this.isClosed = true;
    this.socket?.leave();
  }

  check(nowMs: number, pingMs: number): void {
    this.socket?.check(nowMs, pingMs);
  }

  private async open(upstream: Upstream, { path, headers }: Handshake): Promise<TurnSocket | undefined> {
    this.isOpening = true;
    const options = socketOptions(upstream, {
      headers,
      maxPayload: this.deps.limits.maxEventBytes,
      handshakeTimeout: upstream.connectTimeoutMs + upgradeMs,
    });
    const webSocket = new WebSocket(socketAddress(upstream, path), options);
    const connection = await opened(webSocket);
    this.isOpening = false;
    if (!connection || this.isClosed) {
      webSocket.terminate();
      if (!connection) this.refuse(upstream);
      return undefined;
    }
    this.deps.metrics.upstreamSockets.inc();
    const place = this.deps.replies.open(this.owner.accountId);
    const taken = { webSocket, connection, upstreamId: upstream.id };
    const socket = new TurnSocket(taken, place, (code) => this.onClosed(socket, upstream, code));
    this.socket = socket;
    return socket.reserve() ? socket : undefined;
  }

  private onClosed(socket: TurnSocket, { name }: Upstream, code: number): void {
    const { metrics, log } = this.deps;
    metrics.upstreamSockets.dec();
    if (!socket.isLeaving) log.warn({ socket: this.owner.rid, upstream: name, code }, "upstream socket lost");
  }

  private refuse({ id }: Upstream): void {
    const nowMs = performance.now();
    for (const [other, untilMs] of this.refused) if (untilMs <= nowMs) this.refused.delete(other);
    this.refused.set(id, nowMs + refusedForMs);
  }
}

/** The connection under it, when it has opened. */
function opened(webSocket: WebSocket): Promise<Duplex | undefined> {
  return new Promise((resolve) => {
    webSocket.once("upgrade", ({ socket }) => webSocket.once("open", () => resolve(socket)));
    webSocket.on("error", () => resolve(undefined));
    webSocket.once("unexpected-response", (_request, response: IncomingMessage) => {
      response.destroy();
      resolve(undefined);
    });
  });
}
