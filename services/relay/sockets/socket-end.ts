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
export const closeCodes: Record<ToldEnd, number> = {
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
