import { createServer, type ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { freePort } from "#shared/testing/free-port.ts";
import { isStreamed } from "./reading.ts";
import type { Exchange } from "./recordings.ts";

/** Name, on the upstream's side, of the model that answers with the exchange of this number. */
export const upstreamModel = (number: number): string => `replay-${number}`;

// Odd sizes, down to one byte, so that no cut falls where an event ends.
const pieceSizes = [1, 613, 7, 89, 2_003, 31];

async function sendInPieces(answer: ServerResponse, body: Buffer): Promise<void> {
  let turn = 0;
  for (let from = 0; from < body.length && !answer.destroyed; turn += 1) {
    const size = pieceSizes[turn % pieceSizes.length] ?? 1;
    answer.write(body.subarray(from, from + size));
    from += size;
    // Lets each piece leave as a packet of its own.
    await setImmediate();
  }
  answer.end();
}

export type ReplayUpstream = AsyncDisposable & {
  url: string;
  /** Bodies of the requests, by the ids that the relay gave them. */
  received: Map<string, string>;
};

/**
 * An upstream that answers with recorded bytes: which, the model's name says, in the path or in the body. A request for
 * a stream where the recorded answer is whole, or the other way round, gets 400.
 */
export async function startReplayUpstream(exchanges: Exchange[]): Promise<ReplayUpstream> {
  const received = new Map<string, string>();
  const server = createServer((asked, answer) => {
    const pieces: Buffer[] = [];
    asked.on("data", (piece: Buffer) => pieces.push(piece));
    asked.on("end", () => {
      const body = Buffer.concat(pieces).toString();
      received.set(String(asked.headers["x-request-id"]), body);
      const question = `${asked.url} ${body}`;
      const exchange = exchanges[Number(/\breplay-(\d+)\b/.exec(question)?.[1])];
      const wantsStream = /^\S+:streamGenerateContent\?alt=sse |"stream": ?true/.test(question);
      if (!exchange || wantsStream !== isStreamed(exchange)) {
        answer.writeHead(400, { "content-type": "application/json" });
        return answer.end('{"error":{"message":"nothing like this was recorded","type":"replay","code":400}}');
      }
      const recorded = Buffer.from(exchange.replyBody);
      answer.writeHead(200, { "content-type": exchange.contentType });
      return isStreamed(exchange) ? void sendInPieces(answer, recorded) : answer.end(recorded);
    });
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    received,
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
