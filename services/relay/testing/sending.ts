import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import type { AddressInfo, Server, Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Pools } from "#shared/catalog/pools.ts";
import { createSendSignal, send, SendError, type SentAnswer } from "../upstream/send.ts";
import { readWhole } from "../upstream/whole.ts";
import { upstreamOf } from "./fakes.ts";

export type Listening = AsyncDisposable & { port: number; sockets: Set<Socket> };

/** Serves on a free loopback port; disposal cuts every connection. */
export async function listen(server: Server): Promise<Listening> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

export const serve = (listener: RequestListener): Promise<Listening> => listen(createHttpServer(listener));

// A busy machine may stand still for seconds.
const patient = { connectTimeoutMs: 30_000, firstByteTimeoutMs: 60_000, idleTimeoutMs: 60_000 };

/** An upstream at a port of this machine. */
export const upstreamAt = (port: number, changes: Partial<Upstream> = {}): Upstream =>
  upstreamOf({ id: `${port}`, baseUrl: new URL(`http://127.0.0.1:${port}`), ...patient, ...changes });

/** A request under way. */
export type SentRequest = {
  answer: Promise<SentAnswer>;
  overs: () => number;
  abort: () => void;
  isBillable: () => boolean;
};

/** Sends a request over pools to an upstream. */
export function askOver(pools: Pools, upstream: Upstream, { body = Buffer.from("question") } = {}): SentRequest {
  let overs = 0;
  const signal = createSendSignal();
  const answer = send(pools.poolOf(upstream), {
    origin: upstream.baseUrl.origin,
    path: "/v1/chat/completions",
    headers: ["authorization", "Bearer secret-of-ours"],
    body,
    signal,
    totalTimeoutMs: upstream.totalTimeoutMs,
    onOver: () => (overs += 1),
  });
  return { answer, overs: () => overs, abort: () => signal.abort(), isBillable: () => signal.isBillable };
}

/** The whole answer as text. */
export const wholeOf = async (asked: SentRequest): Promise<string> =>
  (await readWhole(await asked.answer, 10_000)).toString();

/** A connection is used again a turn after its answer, should the upstream close it against its word. */
export const connectionIsFree = (): Promise<void> => setImmediate();

/** Checks an error of sending; `isUnsent` says that another upstream may be asked. */
export const isSendError =
  (failureName: string, isUnsent: boolean) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof SendError, String(error));
    assert.deepEqual([error.failureName, error.isUnsent], [failureName, isUnsent], String(error.cause));
    return true;
  };
