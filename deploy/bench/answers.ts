/** What the bench's upstream serves in the chat format, and by which the loader knows a whole answer. */

/** Frames with content in a streamed answer. */
export const streamChunks = 100;

/** Time between the chunks of a paced stream. */
export const gapMs = 10;

/** Digits of the instant in a paced chunk: microseconds of the machine's monotonic clock. */
export const instantDigits = 16;

/** Comes right before the instant in a paced chunk, and nowhere else in an answer. */
export const instantMark = "@";

/** The text of a content frame; its instant is of zeros. */
export const chunkText = ` ${instantMark}${"0".repeat(instantDigits)}`;

/** What every answer claims. */
export const claim = { inputTokens: 250, outputTokens: 180 };

/**
 * What is asked for: a whole answer, a stream with a gap before each chunk, the same in one write, or a stream that
 * stays open after its first chunk until the upstream is told to end it.
 */
export type LoadKind = "json" | "paced" | "burst" | "idle";

/** Bytes of a whole answer, and of a request unless a load says otherwise. */
export const bodyBytes = 1_024;

/** Path by which the upstream is told to end its idle streams. */
export const releasePath = "/bench/release";

/** The kind of answer that a request wants, by the text at its beginning. */
export function wantedKind(bodyStart: Buffer): LoadKind {
  if (bodyStart.includes("bench-json")) return "json";
  if (bodyStart.includes("bench-paced")) return "paced";
  return bodyStart.includes("bench-idle") ? "idle" : "burst";
}

/** The text of a request that wants this kind of answer, `length` characters long. */
export function requestText(kind: LoadKind, length: number): string {
  const start = `bench-${kind} `;
  return start + filler(length - start.length);
}

/** Text of a length. */
export function filler(length: number): string {
  return "lorem ipsum ".repeat(Math.max(0, Math.ceil(length / 12))).slice(0, Math.max(0, length));
}
