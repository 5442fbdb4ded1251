import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import type { ReplyPlace } from "../stream/reply-room.ts";
import type { ThreadSession } from "../threads/threads.ts";
import { SendError, type Answer } from "./send.ts";

/** An answer whose bytes are in a thread. */
export type LargeAnswer = { session: ThreadSession };

// As of bodies, what is smaller does not count.
const countedBytes = 65_536;

/** Where a large answer is kept, and from how many bytes on in a thread. */
type Keeping = { place: ReplyPlace; openSession: () => ThreadSession; largeFrom: number };

/**
 * Reads an answer to its end, into a thread from `largeFrom` bytes on; a large one waits for room. Rejects with
 * `upstream_invalid` above `maxBytes`, with a SendError when it breaks.
 */
export function readLargeWhole(
  answer: Answer,
  maxBytes: number,
  { place, openSession, largeFrom }: Keeping,
): Promise<Buffer | LargeAnswer> {
  let session: ThreadSession | undefined;
  let bytes = 0;
  let chunks: Buffer[] = [];
  const goOn = (): void => answer.resume();
  const take = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > countedBytes && !place.claim(bytes, goOn)) answer.pause();
    chunks.push(chunk);
    if (!session && bytes < largeFrom) return;
    session ??= openSession();
    // They lie in memory that undici goes on with.
    for (const piece of chunks) session.add("answer", piece, false);
    chunks = [];
  };
  return consume(answer, maxBytes, take).then(() => (session ? { session } : joined(chunks)));
}

const joined = (chunks: Buffer[]): Buffer => (chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));

/** Reads an answer to its end. Rejects with `upstream_invalid` above `maxBytes`, with a SendError when it breaks. */
export async function readWhole(answer: Answer, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  await consume(answer, maxBytes, (chunk) => void chunks.push(chunk));
  return joined(chunks);
}

function consume(answer: Answer, maxBytes: number, take: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let bytes = 0;
    answer.consume({
      data: (chunk) => {
        bytes += chunk.length;
        if (bytes <= maxBytes) return take(chunk);
        // Before the abort, which fails the answer at once.
        reject(new CallFailure({ name: "upstream_invalid", cause: `the answer exceeds ${maxBytes} bytes` }));
        answer.abort();
      },
      end: resolve,
      fail: (error) => reject(new SendError(error)),
    });
  });
}

/** The most that is read to find an error in it. */
export const maxErrorBytes = 262_144;
const errorTimeoutMs = 2_000;

/** An error body as JSON; undefined when it is none, or does not come in time: the status says enough. */
export async function readErrorBody(answer: Answer): Promise<unknown> {
  const timer = setTimeout(() => answer.abort(), errorTimeoutMs);
  try {
    const body = await readWhole(answer, maxErrorBytes);
    return eventJson(body.toString());
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
