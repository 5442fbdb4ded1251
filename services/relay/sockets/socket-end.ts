import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";

/** Why a socket ends, as its log line and metric say it. */
export const socketEnds = [
  "caller",
  "upstream",
  "idle",
  "age",
  "drain",
  "key",
  "no_hold",
  "not_reading",
  "silent",
  "slow_frame",
  "no_room",
  "misuse",
  "broken",
] as const;
export type SocketEnd = (typeof socketEnds)[number];

/** Ends of which a caller is told by a code, where there is one to be told. */
export type ToldEnd = Exclude<SocketEnd, "caller" | "silent" | "not_reading">;

// Codes of RFC 6455 and the registry of WebSocket close codes; clients connect again after 1001, 1011, 1012 and 1013.
const closeCodes: Record<ToldEnd, number> = {
  upstream: 1011,
  idle: 1001,
  age: 1001,
  drain: 1012,
  key: 1008,
  no_hold: 1008,
  slow_frame: 1008,
  no_room: 1013,
  misuse: 1008,
  broken: 1011,
};

// Ends behind which a caller has more to send, of which nothing is read.
const unreadEnds: ReadonlySet<ToldEnd> = new Set<ToldEnd>(["misuse", "no_room", "slow_frame"]);

// As much as a frame of the provider may have: whoever sends one that is too large for the relay is told so.
const maxDiscardedBytes = 16 * 1024 * 1024;

/**
 * Behind the last frame, ends a connection without parsing what still comes on it: a thousand tiny frames are a few
 * kilobytes. It is taken in, because closing at once would take that frame back.
 */
export function discardRest(connection: Duplex): void {
  let bytes = 0;
  const discard = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > maxDiscardedBytes) connection.destroy();
  };
  connection.removeAllListeners("data").on("data", discard).resume().end();
}

/** Closes a socket with the code of its end. */
export function closeSocket(
  { webSocket, connection }: { webSocket: WebSocket; connection: Duplex },
  end: ToldEnd,
): void {
  webSocket.close(closeCodes[end]);
  if (unreadEnds.has(end)) discardRest(connection);
}

export type SocketLimits = {
  /** The provider's own. */
  maxAgeMs: number;
  idleMs: number;
  pingMs: number;
  /** What may wait to be read by a caller before a refusal is written behind it. */
  maxBacklogBytes: number;
  /** Frames in a row that came to nothing. */
  maxRefused: number;
};

/** A socket of a caller, as those see it who count and end all of them. */
export type HeldSocket = {
  readonly accountId: string;
  readonly turns: number;
  readonly end: SocketEnd;
  /** Takes no more turns, and closes when those that run are over. */
  leave: (end: "age" | "drain" | "key") => void;
  /** The regular look at a socket: its age, whether its caller is there, and whether anything comes of it. */
  check: (nowMs: number) => void;
};
