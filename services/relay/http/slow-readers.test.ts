import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { followReaders } from "./slow-readers.ts";

const limits = { patienceMs: 60_000, leastBytesPerSecond: 8_192 };
// Far more than the kernel takes from a caller who reads nothing.
const largeBytes = 32 * 1_048_576;

async function startAnswering(answer: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => answer(response));
  const look = followReaders(server, limits);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const clients: Socket[] = [];
  return {
    look,
    ask: async (): Promise<{ client: Socket; served: Socket }> => {
      const accepted = once(server, "connection") as Promise<[Socket]>;
      const client = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
      client.on("error", () => undefined);
      clients.push(client);
      client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
      const [served] = await accepted;
      return { client, served };
    },
    [Symbol.asyncDispose]: async () => {
      for (const client of clients) client.destroy();
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

test("who reads nothing of a whole answer is broken off within the time for its bytes, and not before", async () => {
  await using world = await startAnswering((response) => void response.end(Buffer.alloc(largeBytes)));
  const { served } = await world.ask();
  await until("bytes wait", () => served.writableLength > 0);
  assert.equal(world.look(0), 0);
  assert.equal(world.look(60_000), 0);
  assert.equal(world.look(60_000 + (largeBytes / 8_192) * 1_000 + 1_000), 1);
  await until("it is closed", () => served.destroyed);
  assert.equal(world.look(10 ** 9), 0);
});

test("who reads a little of a stream now and then is broken off: his bytes buy him their own time only", async () => {
  let stream: ServerResponse | undefined;
  const piece = Buffer.alloc(65_536);
  const fill = (): void => {
    while (stream && !stream.destroyed && stream.write(piece));
  };
  await using world = await startAnswering((response) => {
    stream = response;
    response.on("drain", fill);
    fill();
  });
  const { client, served } = await world.ask();
  await until("bytes wait", () => served.writableLength > 0);
  assert.equal(world.look(0), 0);
  const before = served.bytesWritten;
  client.resume();
  await until("he reads", () => served.bytesWritten > before + 4 * piece.length);
  client.pause();
  await until("bytes wait again", () => served.writableNeedDrain);
  const boughtMs = ((served.bytesWritten - before + 2 * piece.length) / 8_192) * 1_000;
  assert.equal(world.look(60_000), 0);
  assert.equal(world.look(60_000 + boughtMs + 60_000), 1);
});

test("who reads all of it is left alone, however long his connection lives", async () => {
  await using world = await startAnswering((response) => void response.end(Buffer.alloc(largeBytes)));
  const { client, served } = await world.ask();
  await until("bytes wait", () => served.writableLength > 0);
  assert.equal(world.look(0), 0);
  client.resume();
  await until("all is read", () => served.writableLength === 0);
  assert.equal(world.look(10 ** 7), 0);
  client.pause().write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await until("the next answer waits", () => served.writableLength > 0);
  assert.equal(world.look(2 * 10 ** 7), 0, "its time begins now");
  assert.equal(served.destroyed, false);
});
