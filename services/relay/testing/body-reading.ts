import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { createBodyBudget, type BodyBudget } from "../http/body-budget.ts";
import { readBody } from "../http/body.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { respondFailure } from "../http/respond.ts";
import type { Threads } from "../threads/threads.ts";
import { connectRaw, serveHttp, type RawClient } from "./raw-client.ts";

export const mebibyte = 1024 * 1024;

type Outcome = { bytes: number } | { failure: string } | { gone: true };
type Reading = { request: IncomingMessage; keyChecks: number; body: Buffer; outcome: Promise<Outcome> };

type ReadingOptions = {
  budget?: BodyBudget;
  stallMs?: number;
  keepUp?: Threads["keepUp"];
  accountId?: string;
  address?: string;
};

/** A server that reads one body as the path of a call does, and a caller on a socket, of an account and address. */
export async function startReading(
  checkKey: () => Promise<void> = async () => undefined,
  {
    budget = createBodyBudget(512 * mebibyte),
    stallMs,
    keepUp = () => true,
    accountId = "acct_1",
    address = "192.0.2.1",
  }: ReadingOptions = {},
) {
  const begun = Promise.withResolvers<Reading>();
  const server = await serveHttp((request, response) => {
    const reading: Reading = { request, keyChecks: 0, body: Buffer.alloc(0), outcome: Promise.resolve({ gone: true }) };
    const read = async (): Promise<Outcome> => {
      try {
        const owner = { address, accountId: "" };
        const countedCheck = async (): Promise<void> => {
          reading.keyChecks += 1;
          await checkKey();
          owner.accountId = accountId;
        };
        const stall = stallMs === undefined ? {} : { stallMs };
        const body = await readBody(request, response, { checkKey: countedCheck, budget, owner, keepUp, ...stall });
        response.end("read");
        reading.body = body ?? Buffer.alloc(0);
        return body ? { bytes: body.length } : { gone: true };
      } catch (error) {
        assert.ok(error instanceof CallFailure);
        const { failure } = error;
        respondFailure(response, { rid: "rid-1", failure, dialect: dialects["openai-chat"] });
        return { failure: failure.name };
      }
    };
    reading.outcome = read();
    begun.resolve(reading);
  });
  const client = await connectRaw(server.port);
  return {
    client,
    reading: begun.promise,
    [Symbol.asyncDispose]: async () => {
      client.socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Resolves when all of it has left this process, whether or not the server answers meanwhile. */
export const write = ({ socket }: RawClient, bytes: string | Buffer): Promise<void> =>
  new Promise((written) => socket.write(bytes, () => written()));

export const announce = (client: RawClient, length: number): Promise<void> =>
  write(client, `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`);
export const announceChunks = (client: RawClient): Promise<void> =>
  write(client, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
export const writeChunk = async (client: RawClient, length: number): Promise<void> => {
  await write(client, `${length.toString(16)}\r\n`);
  await write(client, Buffer.alloc(length, "x"));
  await write(client, "\r\n");
};
export const lastChunk = "0\r\n\r\n";
