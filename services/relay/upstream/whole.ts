import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import type { ReplyPlace } from "../http/reply-room.ts";
import { TurnShare } from "../http/turn-share.ts";
import type { ThreadSession } from "../threads/threads.ts";
import { Flow, inSteps, type Consumer } from "./flow.ts";
import { SendError, type Answer } from "./send.ts";

/** An answer whose bytes are in a thread; `rest`, paused: what comes behind the most that is kept there. */
export type LargeAnswer = { session: ThreadSession; rest?: Answer };

// As of bodies, what is smaller does not count.
const countedBytes = 65_536;

/** Where a large answer is kept, and from how many bytes on in a thread. */
type Keeping = { place: ReplyPlace; openSession: () => ThreadSession; largeFrom: number };

/** What comes of an answer once its first consumer has had enough. */
class Rest extends Flow {
  readonly input: Consumer = {
    data: (chunk) => this.give(chunk),
    end: () => this.finish(),
    fail: (error) => this.break(error),
  };
}

/**
 * Reads an answer to its end, into a thread from `largeFrom` bytes on; a large one waits for room. One of more than
 * `maxBytes` is given with its rest. Rejects with a SendError when it breaks.
 */
export function readLargeWhole(
  answer: Answer,
  maxBytes: number,
  { place, openSession, largeFrom }: Keeping,
): Promise<Buffer | LargeAnswer> {
  let session: ThreadSession | undefined;
  let bytes = 0;
  let chunks: Buffer[] = [];
  let isWaiting = false;
  const large = inTurns(answer);
  const wait = (): void => {
    if (!isWaiting) large.pause();
    isWaiting = true;
  };
  const goOn = (): void => {
    isWaiting = false;
    large.resume();
  };
  const moveOut = (): ThreadSession => {
    session ??= openSession();
    // They lie in memory that undici goes on with.
    for (const piece of chunks) session.add("answer", piece, false);
    chunks = [];
    return session;
  };
  const take = (chunk: Buffer): void => {
    if (bytes > countedBytes && !place.claim(bytes, goOn)) wait();
    chunks.push(chunk);
    if (session || bytes >= largeFrom) moveOut();
  };
  return new Promise((resolve, reject) => {
    let rest: Rest | undefined;
    const data = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (rest) return rest.input.data(chunk);
      if (bytes <= maxBytes) return take(chunk);
      rest = new Rest();
      rest.input.data(chunk);
      large.pause();
      const consume: Answer["consume"] = rest.consume.bind(rest);
      resolve({ session: moveOut(), rest: { ...large, consume } });
    };
    large.consume({
      data,
      end: () => (rest ? rest.input.end() : resolve(session ? { session } : joined(chunks))),
      fail: (error) => (rest ? rest.input.fail(error) : reject(new SendError(error))),
    });
  });
}

/**
 * The same answer, of which what is large is read as far as a turn of the event loop has room for it, and which waits
 * for as long as anybody has paused it.
 */
function inTurns(answer: Answer): Answer {
  let bytes = 0;
  let pauses = 0;
  const pause = (): void => {
    pauses += 1;
    if (pauses === 1) answer.pause();
  };
  const resume = (): void => {
    pauses -= 1;
    if (pauses === 0) answer.resume();
  };
  const share = new TurnShare({ pause, resume });
  const take = (chunkBytes: number, step: () => void): void => {
    bytes += chunkBytes;
    if (bytes > countedBytes) share.take(chunkBytes, step);
    else step();
  };
  const { status, headers } = answer;
  return {
    status,
    headers,
    consume: (consumer) => answer.consume(inSteps(take, consumer)),
    pause,
    resume,
    abort: () => answer.abort(),
  };
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
