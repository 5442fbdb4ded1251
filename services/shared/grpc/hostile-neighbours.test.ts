import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2, constants, type IncomingHttpHeaders, type Settings } from "node:http2";
import { connect } from "node:net";
import { after, test } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { refusing } from "../testing/refusing.ts";

// What a pod may send that does not speak gRPC as its libraries do.

const handlers = unaryHandlers(
  BillingService,
  { ...refusing(BillingService, () => new Error("never")), getBalance: async () => ({ balanceNanos: 1n }) },
  createLog("test", "silent"),
);
const server = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 100 });
after(() => server[Symbol.asyncDispose]());

async function servesOthers(): Promise<void> {
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  const { balanceNanos } = await unaryClient(BillingService, channel, 5_000).getBalance({ accountId: "a" });
  assert.equal(balanceNanos, 1n);
}

const open = () => connectHttp2(`http://127.0.0.1:${server.port}`).on("error", () => undefined);

test("one connection has so many streams, and no more", async () => {
  const session = open();
  const [settings] = (await once(session, "remoteSettings")) as [Settings];
  assert.equal(settings.maxConcurrentStreams, 4_096);
  session.destroy();
});

const bodies: [what: string, body: Buffer, status: string][] = [
  ["a message of 4 GB is announced", Buffer.from([0, 0xff, 0xff, 0xff, 0xff]), "8"],
  ["a message is no protobuf", Buffer.from([0, 0, 0, 0, 3, 0xff, 0xff, 0xff]), "13"],
  ["a message says that it is compressed", Buffer.from([1, 0, 0, 0, 1, 0]), "13"],
];

for (const [what, body, status] of bodies) {
  test(`${what}: the call alone ends`, async () => {
    const session = open();
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: `/${BillingService.typeName}/GetBalance`,
      [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
      te: "trailers",
    });
    const heads: IncomingHttpHeaders = {};
    stream.on("response", (head) => Object.assign(heads, head)).on("trailers", (head) => Object.assign(heads, head));
    stream.on("error", () => undefined).resume();
    stream.end(body);
    await once(stream, "close");
    session.destroy();
    assert.equal(heads["grpc-status"], status);
    await servesOthers();
  });
}

for (const [what, bytes] of [
  ["HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
  ["frames of no kind", `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${"\xff".repeat(64)}`],
] as const) {
  test(`${what} ends the connection, and nobody else's`, async () => {
    const socket = connect(server.port, "127.0.0.1").on("error", () => undefined);
    socket.write(bytes, "latin1");
    socket.resume();
    await once(socket, "close");
    await servesOthers();
  });
}
