import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { until } from "#shared/testing/until.ts";
import { beginTimes } from "../call-times.ts";
import { emptyTally, type DialectName, type StreamTap } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { createMetrics } from "../metrics.ts";
import { pumpStream, type PumpHandle } from "../stream/pump.ts";
import type { Consumer } from "../upstream/flow.ts";
import type { Answer } from "../upstream/send.ts";
import { connectRaw, serveHttp } from "./raw-client.ts";

/** An upstream's answer in the hands of the test. As with undici, aborting it fails it before `abort` returns. */
function fakeAnswer(note: (step: string) => void) {
  let consumer: Consumer | undefined;
  let isOver = false;
  const answer: Answer = {
    status: 200,
    headers: {},
    consume: (taker) => {
      consumer = taker;
    },
    pause: () => note("pause"),
    resume: () => note("resume"),
    abort: () => {
      note("abort");
      fail(new Error("aborted"));
    },
  };
  const fail = (error: Error): void => {
    if (isOver) return;
    isOver = true;
    consumer?.fail(error);
  };
  return {
    answer,
    fail,
    give: (chunk: string | Buffer) => consumer?.data(Buffer.from(chunk)),
    end: () => {
      isOver = true;
      consumer?.end();
    },
  };
}

type Setup = {
  dialect?: DialectName;
  request?: object;
  isReading?: boolean;
  isOfEvents?: boolean;
  maxEventBytes?: number;
  /** Whether the stream begins only after the caller has gone. */
  isTooLate?: boolean;
  /** What reads the stream; left out: the dialect's own. */
  tap?: StreamTap;
  /** Whether the charge fails. */
  isUnchargeable?: boolean;
};

/** A stream under way: a caller on a socket, the relay's response to it, and the upstream's answer. */
export async function startStream({ dialect: name = "openai-chat", request = {}, ...setup }: Setup = {}) {
  const dialect = dialects[name];
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [], stream: true, ...request }));
  const envelope = dialect.readEnvelope(readJsonBody(body), "m");
  const steps: string[] = [];
  const upstream = fakeAnswer((step) => steps.push(step));
  const tally = emptyTally();
  const { streamBytes: bytes, backpressure, gaps } = createMetrics(createRegistry("test"));
  const counts = { bytes, backpressure, gaps: gaps.of({ upstream: "u" }) };
  const ends: EndCause[] = [];
  const broken: unknown[] = [];
  const onPieces: (() => void)[] = [];
  const begun = Promise.withResolvers<{ response: ServerResponse; pumping: PumpHandle }>();

  const begin = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200).flushHeaders();
    noteWrites(response, steps);
    if (setup.isTooLate) await once(response, "close");
    const pumping = pumpStream({
      answer: upstream.answer,
      response,
      tap: setup.tap ?? dialect.createTap(envelope, (error) => error),
      tally,
      times: beginTimes(performance.now()),
      counts,
      isOfEvents: setup.isOfEvents ?? true,
      maxEventBytes: setup.maxEventBytes ?? 1_000_000,
      onEnd: (endCause) => {
        ends.push(endCause);
        steps.push("onEnd");
        if (setup.isUnchargeable) throw new Error("no charge");
      },
      onBroken: (thrown) => broken.push(thrown),
      onPiece: () => onPieces.forEach((onPiece) => onPiece()),
    });
    pumping.flow();
    begun.resolve({ response, pumping });
  };
  const server = await serveHttp((_request, response) => void begin(response));
  const client = await connectRaw(server.port, setup.isReading ?? true);
  // HTTP/1.0: no chunked encoding, so the body on the wire is the body.
  client.socket.write("GET / HTTP/1.0\r\n\r\n");
  if (setup.isTooLate) {
    await until("the head is there", () => client.head() !== "");
    client.socket.destroy();
  }
  const { response, pumping } = await begun.promise;
  return {
    ...upstream,
    steps,
    tally,
    counts,
    client,
    response,
    pumping,
    onPieces,
    broken,
    endCause: () => ends[0],
    received: async () => {
      await client.closed;
      return client.body().toString();
    },
    [Symbol.asyncDispose]: async () => {
      client.socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

function noteWrites(response: ServerResponse, steps: string[]): void {
  const write = response.write.bind(response);
  const end = response.end.bind(response);
  response.write = (chunk: Buffer) => {
    steps.push(`write ${chunk.toString()}`);
    return write(chunk);
  };
  response.end = (chunk?: unknown) => {
    steps.push(`end ${String(chunk)}`);
    return end(chunk);
  };
}

const dataOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

/** A chat chunk with text. */
export const content = (text: string): string => dataOf({ choices: [{ index: 0, delta: { content: text } }] });

/** The chat chunk that says why the answer ended. */
export const finish = dataOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

/** The chat chunk that holds nothing but the token counts. */
export const usage = dataOf({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } });

export const done = "data: [DONE]\n\n";

/** An event of Messages or Responses. */
export const eventOf = (type: string, fields: object = {}): string => `event: ${type}\n${dataOf({ type, ...fields })}`;
