import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Client } from "@grpc/grpc-js";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { SessionRequestSchema, SessionResponseSchema, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { defaultLimits, openQuotaSession } from "./quota-session.ts";
import { listeningLog } from "../testing/fakes.ts";

const stallMs = 250;

/** Two ends of a connection through the kernel: what is written at one is read at the other in a later turn only. */
async function openConnection(folder: string): Promise<[far: Socket, near: Socket, close: () => void]> {
  const server = createServer().listen(join(folder, "socket"));
  const accepted = once(server, "connection");
  const near = createConnection(join(folder, "socket"));
  const [far] = (await accepted) as [Socket];
  const close = (): void => {
    for (const end of [far, near, server.close()]) if ("destroy" in end) end.destroy();
  };
  return [far, near, close];
}

/** Lets nothing else of this process run for a while. */
function stall(): void {
  const untilMs = performance.now() + stallMs;
  while (performance.now() < untilMs);
}

/**
 * A channel whose streams answer at once, through the kernel: when something waits for an answer, that lies there while
 * this process stands still for longer than who waits has patience.
 */
function stallingChannel(far: Socket, near: Socket, streams: EventEmitter[]): Client {
  const open = (_path: string, encode: (bytes: Buffer) => Buffer, decode: (bytes: Buffer) => unknown) => {
    const stream = new EventEmitter();
    streams.push(stream);
    near.on("data", (bytes: Buffer) => stream.emit("data", decode(bytes)));
    const write = (encoded: Buffer): void => {
      const { batch, operations } = fromBinary(SessionRequestSchema, encode(encoded));
      const results = operations.map(() => ({ verdict: Verdict.OK }));
      far.write(toBinary(SessionResponseSchema, create(SessionResponseSchema, { batch, results })));
      if (operations.length > 0) stall();
    };
    return Object.assign(stream, { write, cancel: () => stream.emit("end") });
  };
  return { makeBidiStreamRequest: open } as unknown as Client;
}

for (const [what, limits] of [
  ["an ask is answered by what had arrived when its time was over", { askTimeoutMs: stallMs / 2 }],
  ["a stream is kept on which answers had arrived when it seemed silent", { silentMs: stallMs / 2 }],
] as const) {
  test(`${what}, though this process stood still`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "stall-"));
    const [far, near, close] = await openConnection(folder);
    try {
      const streams: EventEmitter[] = [];
      const channel = stallingChannel(far, near, streams);
      const patience = { ...defaultLimits, heartbeatMs: 60_000, ...limits };
      await using session = openQuotaSession(channel, "session-1", listeningLog().log, patience);
      await until("the session is connected", () => session.isConnected());
      const { verdict } = await session.ask({ operation: { case: "lookup", value: { rid: "a" } } });
      assert.equal(verdict, Verdict.OK);
      assert.equal(streams.length, 1);
    } finally {
      close();
      rmSync(folder, { recursive: true });
    }
  });
}
