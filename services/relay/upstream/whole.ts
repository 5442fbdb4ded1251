import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import { SendError, type Answer } from "./send.ts";

/** Reads an answer to its end. Rejects with `upstream_invalid` above `maxBytes`, with a SendError when it breaks. */
export function readWhole(answer: Answer, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    answer.consume({
      data: (chunk) => {
        bytes += chunk.length;
        if (bytes > maxBytes) {
          // Before the abort, which fails the answer at once.
          reject(new CallFailure({ name: "upstream_invalid", cause: `the answer exceeds ${maxBytes} bytes` }));
          answer.abort();
        } else chunks.push(chunk);
      },
      end: () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)),
      fail: (error) => reject(new SendError(error)),
    });
  });
}

const maxErrorBytes = 262_144;
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
