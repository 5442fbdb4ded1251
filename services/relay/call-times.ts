/** When a call came to each step, in monotonic milliseconds (`performance.now()`); 0: it did not. */
export type CallTimes = {
  /** The head of the request was there. */
  receivedAt: number;
  /** The body was there. */
  readAt: number;
  /** auth-quota was asked for the hold, and answered. */
  reservingAt: number;
  reservedAt: number;
  /** The upstream that answered was asked, its head came, and its last byte. */
  sentAt: number;
  answeredAt: number;
  upstreamEndedAt: number;
  /** The upstream that was asked last had failed. */
  leftAt: number;
  /** That came of which the caller's first byte is made: a piece of a stream, or the last byte of a whole answer. */
  arrivedAt: number;
  /** The first byte of the answer's body was written to the caller. */
  firstByteAt: number;
  /** The charge was made, and was in the spool. */
  settlingAt: number;
  settledAt: number;
  /** Milliseconds between body and first byte in which others were waited for: media, upstreams that did not serve. */
  awaitedMs: number;
};

/** What a call waited for this process, by phase, in milliseconds; undefined: it did not come so far. */
export type Overheads = Record<"reserve" | "prepare" | "firstByte" | "settle" | "total", number | undefined>;

const between = (from: number, to: number): number | undefined =>
  from > 0 && to > 0 ? Math.max(0, to - from) : undefined;

/** The wait for the caller's body, for upstreams and for a caller who does not read is none of ours. */
export function overheadsOf(times: CallTimes): Overheads {
  const { readAt, reservingAt, reservedAt, sentAt, arrivedAt, awaitedMs } = times;
  const reserve = between(reservingAt, reservedAt);
  const asked = between(readAt, sentAt);
  const prepare = asked === undefined ? undefined : Math.max(0, asked - (reserve ?? 0) - awaitedMs);
  const firstByte = between(arrivedAt, times.firstByteAt);
  return {
    reserve,
    prepare,
    firstByte,
    settle: between(times.settlingAt, times.settledAt),
    total: prepare === undefined || firstByte === undefined ? undefined : prepare + (reserve ?? 0) + firstByte,
  };
}

/** The times of a call that has just come in. */
export function beginTimes(receivedAt: number): CallTimes {
  return {
    receivedAt,
    readAt: 0,
    reservingAt: 0,
    reservedAt: 0,
    sentAt: 0,
    answeredAt: 0,
    upstreamEndedAt: 0,
    leftAt: 0,
    arrivedAt: 0,
    firstByteAt: 0,
    settlingAt: 0,
    settledAt: 0,
    awaitedMs: 0,
  };
}
