import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type ServerOptions, type WebSocket } from "ws";
import { createRid } from "#shared/money/rid.ts";
import { failureOf, type Relay } from "../call.ts";
import { authorize, callerOf, type Caller } from "../charge/admit.ts";
import { CallFailure, expectedCauses, type Failure } from "../failures.ts";
import { createBodyBudget, type BodyBudget, type BodyShare } from "../http/body-budget.ts";
import { readKey } from "../http/read.ts";
import { requestIdHeaders } from "../http/respond.ts";
import { inTurn } from "../http/turn-share.ts";
import { pathOf, realtimePath } from "../http/paths.ts";
import type { RefusedSockets } from "../upstream/turn-link.ts";
import { CallerSocket } from "./caller-socket.ts";
import { KeyWatch } from "./key-watch.ts";
import { dropSession, sessionCallerOf, startSession, type SessionCaller } from "./realtime/open-session.ts";
import { RealtimeSession, type SessionStart } from "./realtime/session.ts";
import { discardRest, type HeldSocket, type SocketLimits } from "./socket-end.ts";

declare module "fastify" {
  interface FastifyInstance {
    sockets: Sockets;
  }
}

/** A request that asks to become a WebSocket. */
export type Upgrade = { request: IncomingMessage; response: ServerResponse; ip: string; head: Buffer };

type FollowedSocket = Pick<Upgrade, "ip"> & { rid: string; webSocket: WebSocket; connection: Duplex; caller: Caller };

export type RefusedUpgrade = { failure: Failure; caller: Caller | undefined };

/** The WebSockets of this process. */
export type Sockets = Disposable & {
  readonly size: number;
  /** Opens a socket; gives why it is refused, for the caller to be told over HTTP, and who that is. */
  open: (upgrade: Upgrade) => Promise<RefusedUpgrade | undefined>;
  /** Takes no more turns: each socket closes when those that run on it are over. */
  drain: () => void;
};

export type SocketsLimits = SocketLimits & {
  maxSockets: number;
  maxPerAccount: number;
  /** Of all responses that are kept for later turns. */
  maxKeptBytes: number;
  checkEveryMs: number;
  /** Keys that are looked at in each round. */
  maxKeyChecks: number;
};

export const defaultSocketLimits = {
  maxAgeMs: 60 * 60 * 1_000,
  pingMs: 30_000,
  maxBacklogBytes: 1_048_576,
  maxRefused: 32,
  checkEveryMs: 1_000,
  maxKeyChecks: 256,
};

const keyPattern = /^[+/0-9A-Za-z]{22}==$/;

function requireHandshake({ headers, socket }: IncomingMessage): void {
  const isWhole = headers["sec-websocket-version"] === "13" && keyPattern.test(headers["sec-websocket-key"] ?? "");
  if (!isWhole || socket.destroyed) throw new CallFailure({ name: "malformed_request", cause: "a wrong handshake" });
}

// Shares are given back by hand: a socket asks again and again, and every share would listen for its end.
const shareOf = (budget: BodyBudget, caller: Caller): BodyShare =>
  budget.share({ destroyed: false, once: () => undefined as never }, caller);

// A frame is unmasked and read where all sockets are served, and an event of a session is written anew there: 4 MiB of
// many small items take some 60 ms, 16 MiB more than twice that. Whoever has more to send, such as many pictures, sends
// it over HTTP, where large bodies are read in threads.
const maxFrameBytes = 4 * 1024 * 1024;
// Clients write a frame as one or in pieces of some kilobytes; pieces of nothing cost time and no bytes.
const maxFragments = 1_024;

type ServerKind = { maxPayload: number; protocol?: string };

function createServer(
  ridOf: (request: IncomingMessage) => string,
  { maxPayload, protocol }: ServerKind,
): WebSocketServer {
  // Its types do not know the limit of fragments.
  const options: ServerOptions & { maxFragments: number } = {
    noServer: true,
    clientTracking: false,
    maxPayload,
    maxFragments,
    // 64 KiB, which are read at once, may be eight thousand frames: each has a turn of its own.
    allowSynchronousEvents: false,
    // A frame must not become larger than it came.
    perMessageDeflate: false,
    handleProtocols: (offered) => (protocol !== undefined && offered.has(protocol) ? protocol : false),
  };
  const server = new WebSocketServer(options);
  return server.on("headers", (headers, request) => {
    for (const [name, value] of Object.entries(requestIdHeaders(ridOf(request)))) headers.push(`${name}: ${value}`);
  });
}

class OpenSockets implements Sockets {
  private readonly relay: Relay;
  private readonly limits: SocketsLimits;
  private readonly rids = new WeakMap<IncomingMessage, string>();
  private readonly server = createServer((request) => this.rids.get(request) ?? "", { maxPayload: maxFrameBytes });
  private readonly realtimeServer = createServer((request) => this.rids.get(request) ?? "", {
    maxPayload: maxFrameBytes,
    protocol: "realtime",
  });
  private readonly all = new Set<HeldSocket>();
  /** Sockets on their way, whose providers are asked first. */
  private readonly coming = new Set<Caller>();
  private readonly keys: KeyWatch;
  private readonly refusedSockets: RefusedSockets = new Map();
  private readonly kept: BodyBudget;
  private readonly timer: NodeJS.Timeout;

  constructor(relay: Relay, limits: SocketsLimits) {
    this.relay = relay;
    this.limits = limits;
    this.keys = new KeyWatch(relay.settling.quota, limits.maxKeyChecks);
    this.kept = createBodyBudget(limits.maxKeptBytes);
    this.timer = setInterval(() => this.check(), limits.checkEveryMs).unref();
  }

  get size(): number {
    return this.all.size;
  }

  async open(upgrade: Upgrade): Promise<RefusedUpgrade | undefined> {
    let caller: Caller | undefined;
    try {
      const { request, ip } = upgrade;
      const isSession = pathOf(request.url ?? "") === realtimePath;
      const asking = isSession
        ? sessionCallerOf(request.headers, ip, this.relay)
        : { caller: callerOf(readKey(request.headers, false), ip), secret: undefined };
      caller = asking.caller;
      requireHandshake(request);
      this.requireRoom();
      const { keyId, models } = await authorize(this.relay, caller);
      const takeWhereItFits = (): void => {
        requireHandshake(request);
        this.requireRoom();
        this.requireRoomFor(asking.caller);
        if (!isSession) this.take(upgrade, asking.caller, keyId);
      };
      // Keys are known many at once, and whoever opens many sockets does not keep all others waiting.
      await inTurn(takeWhereItFits);
      if (isSession) await this.openSession(upgrade, asking, { keyId, models });
      return undefined;
    } catch (thrown) {
      return { failure: failureOf(thrown), caller };
    }
  }

  drain(): void {
    for (const socket of this.all) socket.leave("drain");
  }

  [Symbol.dispose](): void {
    clearInterval(this.timer);
  }

  private requireRoom(): void {
    if (this.relay.isDraining) throw new CallFailure({ name: "service_unavailable", cause: expectedCauses.stopping });
    if (this.all.size + this.coming.size < this.limits.maxSockets) return;
    throw new CallFailure({ name: "service_unavailable", cause: "MAX_SOCKETS are open" });
  }

  private requireRoomFor({ accountId }: Caller): void {
    let count = 0;
    for (const one of [this.all, this.coming]) for (const other of one) if (other.accountId === accountId) count += 1;
    if (count < this.limits.maxPerAccount) return;
    throw new CallFailure({ name: "account_rate", cause: "MAX_SOCKETS_PER_ACCOUNT are open" });
  }

  /** Opens a session when its provider has taken it. Throws a CallFailure. */
  private async openSession(
    { request, response, ip, head }: Upgrade,
    asking: SessionCaller,
    { keyId, models: allowedModels }: { keyId: string; models: readonly string[] },
  ): Promise<void> {
    const { caller } = asking;
    const { url = "", headers, socket: connection } = request;
    let start: SessionStart;
    this.coming.add(caller);
    try {
      const isGone = (): boolean => connection.destroyed;
      start = await startSession({ url, headers, ip, isGone, allowedModels }, asking, this.relay);
    } finally {
      this.coming.delete(caller);
    }
    if (connection.destroyed || this.relay.isDraining) {
      dropSession(start, this.relay);
      throw new CallFailure({ name: "service_unavailable", cause: expectedCauses.stopping });
    }
    const { rid } = start;
    this.rids.set(request, rid);
    response.detachSocket(connection);
    this.realtimeServer.handleUpgrade(request, connection, head, (webSocket) => {
      const opened = { webSocket, connection, intake: shareOf(this.relay.bodyBudget, caller) };
      const session = new RealtimeSession(start, opened, this.relay, this.limits);
      this.follow(session, { rid, ip, webSocket, connection, caller }, keyId);
    });
  }

  private take({ request, response, ip, head }: Upgrade, caller: Caller, keyId: string): void {
    const { headers, socket: connection } = request;
    const rid = createRid();
    this.rids.set(request, rid);
    response.detachSocket(connection);
    this.server.handleUpgrade(request, connection, head, (webSocket) => {
      const shares = { keep: shareOf(this.kept, caller), intake: shareOf(this.relay.bodyBudget, caller) };
      const { refusedSockets } = this;
      const opened = { rid, webSocket, connection, headers, caller, ip, ...shares, refusedSockets };
      this.follow(new CallerSocket(opened, this.relay, this.limits), opened, keyId);
    });
  }

  private follow(socket: HeldSocket, { rid, ip, webSocket, connection, caller }: FollowedSocket, keyId: string): void {
    const { metrics, log } = this.relay;
    const startedAtMs = performance.now();
    const told = { rid, ip, account: socket.accountId, key: keyId };
    this.all.add(socket);
    this.keys.add(caller, socket);
    metrics.sockets.inc();
    log.info(told, "socket opened");
    // What is no frame, or too large; its sender is told by a code.
    webSocket.on("error", () => discardRest(connection));
    webSocket.once("close", (code) => {
      this.all.delete(socket);
      this.keys.remove(caller, socket);
      metrics.sockets.dec();
      const { end, turns } = socket;
      metrics.socketEnds.inc({ reason: end });
      const durationMs = Math.round(performance.now() - startedAtMs);
      log.info({ ...told, end, code, turns, durationMs }, "socket closed");
    });
  }

  private check(): void {
    const nowMs = performance.now();
    for (const socket of this.all) socket.check(nowMs);
    this.keys.look();
    this.relay.metrics.socketKeptBytes.set(this.kept.bytes());
  }
}

export function createSockets(relay: Relay, limits: SocketsLimits): Sockets {
  return new OpenSockets(relay, limits);
}
