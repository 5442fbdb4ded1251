import { once } from "node:events";
import { Agent, type IncomingMessage, request, type RequestOptions } from "node:http";
import { connect, type Socket } from "node:net";
import { behaviourText, type Behaviour } from "#fake-provider/behaviour.ts";
import type { Customer } from "./world.ts";

/** What a caller got: the head, whether the whole body came, and what broke; "" when nothing did. */
export type CallResult = { rid: string; status: number; closes: boolean; isWhole: boolean; reason: string };

type CallOptions = { url: string; customer: Customer; behaviour?: Behaviour; isStream?: boolean; model?: string };

function bodyOf({ behaviour = {}, isStream = false, model = "cheap-model" }: CallOptions, padding = 0): string {
  const content = behaviourText(behaviour, `Please answer.${" ".repeat(padding)}`);
  return JSON.stringify({ model, stream: isStream, max_tokens: 100, messages: [{ role: "user", content }] });
}

function open({ url, customer }: CallOptions, body: string, options: RequestOptions) {
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    authorization: `Bearer ${customer.secret}`,
  };
  const question = request(`${url}/v1/chat/completions`, { method: "POST", headers, ...options });
  return { question, got: read(question) };
}

function read(question: ReturnType<typeof request>): Promise<CallResult> {
  return new Promise((resolve) => {
    let answer: IncomingMessage | undefined;
    let reason = "";
    question.on("error", (error) => (reason ||= error.message));
    question.on("response", (response) => {
      answer = response;
      response.on("error", (error) => (reason ||= error.message));
      response.resume();
    });
    question.on("close", () =>
      resolve({
        rid: String(answer?.headers["x-request-id"] ?? ""),
        status: answer?.statusCode ?? 0,
        closes: answer?.headers.connection === "close",
        isWhole: answer?.complete ?? false,
        reason,
      }),
    );
  });
}

/** Makes one call. */
export function callOnce(asking: CallOptions, options: RequestOptions = { agent: false }): Promise<CallResult> {
  const body = bodyOf(asking);
  const { question, got } = open(asking, body, options);
  question.end(body);
  return got;
}

/** Makes calls on one connection, one behind the other, until an answer says that the connection closes. */
export async function callUntilTold(asking: CallOptions): Promise<CallResult[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const all: CallResult[] = [];
  for (;;) {
    const got = await callOnce(asking, { agent });
    all.push(got);
    if (got.closes || got.reason !== "") break;
  }
  agent.destroy();
  return all;
}

/** Sends half of a request; the other half goes out when `finish` is called. */
export function beginUpload(asking: CallOptions): { got: Promise<CallResult>; finish: () => void } {
  const body = bodyOf(asking, 10_000);
  const { question, got } = open(asking, body, { agent: false });
  question.write(body.slice(0, 5_000));
  return { got, finish: () => void question.end(body.slice(5_000)) };
}

/** Begins a streamed answer and takes in nothing of it until `read` is called. */
export async function beginSlowReading(asking: CallOptions): Promise<{ got: Promise<CallResult>; read: () => void }> {
  const body = bodyOf({ ...asking, isStream: true });
  const { question, got } = open(asking, body, { agent: false });
  question.end(body);
  const [response] = (await once(question, "response")) as [IncomingMessage];
  response.pause();
  return { got, read: () => void response.resume() };
}

/** An idle connection and how it ended: undefined while it is open, "closed" when the other side has closed it. */
export type Idle = { end: () => string | undefined };

function watch(socket: Socket): Idle {
  let end: string | undefined;
  let hasEnded = false;
  socket.on("end", () => (hasEnded = true));
  socket.on("error", (error) => (end = error.message));
  socket.on("close", () => (end ??= hasEnded ? "closed" : "broken"));
  socket.resume();
  return { end: () => end };
}

/** A connection that nothing was ever asked on. */
export async function openUnused(url: string): Promise<Idle> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  await once(socket, "connect");
  return watch(socket);
}

/** A connection on which a call was answered, and which is kept for the next. */
export async function openIdle(asking: CallOptions): Promise<Idle> {
  const body = bodyOf(asking);
  const socket = connect(Number(new URL(asking.url).port), "127.0.0.1");
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${asking.customer.secret}\r\n`;
  socket.write(`${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  await once(socket, "data");
  return watch(socket);
}
