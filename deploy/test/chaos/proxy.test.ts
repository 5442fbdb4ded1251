import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { until } from "#shared/testing/until.ts";
import { startProxy } from "./proxy.ts";

/** A server that answers with what it gets, behind a proxy, and one connection to it. */
async function open(t: TestContext) {
  const server = createServer((socket) => socket.on("error", () => undefined).pipe(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy = await startProxy();
  const { port } = server.address() as AddressInfo;
  proxy.leadTo(port);
  const sockets: Socket[] = [];
  const dial = () => {
    const socket = connect(proxy.port, "127.0.0.1");
    sockets.push(socket);
    const seen = { text: "", error: "", isClosed: false };
    socket.setEncoding("utf8").on("data", (text: string) => (seen.text += text));
    socket.on("error", (error: NodeJS.ErrnoException) => (seen.error = error.code ?? error.message));
    socket.on("close", () => (seen.isClosed = true));
    return { socket, seen };
  };
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await proxy[Symbol.asyncDispose]();
    server.close();
  });
  return { proxy, dial };
}

test("bytes and the end pass both ways", async (t) => {
  const { proxy, dial } = await open(t);
  const { socket, seen } = dial();
  const large = "x".repeat(3_000_000);
  socket.end(large);
  await until("all is back and the end, too", () => seen.isClosed);
  assert.equal(seen.text.length, large.length);
  assert.equal(seen.error, "");
  await until("nothing is left open", () => proxy.connections() === 0);
  assert.equal(proxy.opened(), 1);
});

test("a cut resets what is open and what is opened, until it is healed", async (t) => {
  const { proxy, dial } = await open(t);
  const first = dial();
  first.socket.write("before");
  await until("it is open", () => first.seen.text === "before");
  proxy.cut();
  await until("it is reset", () => first.seen.isClosed);
  assert.equal(first.seen.error, "ECONNRESET");
  const second = dial();
  await until("a new one is reset", () => second.seen.isClosed);
  proxy.heal();
  const third = dial();
  third.socket.write("after");
  await until("it is whole again", () => third.seen.text === "after");
});

test("while it is frozen nothing passes and nothing breaks; afterwards everything comes, in order", async (t) => {
  const { proxy, dial } = await open(t);
  const { socket, seen } = dial();
  socket.write("one ");
  await until("it is open", () => seen.text === "one ");
  proxy.freeze();
  socket.write("two ");
  const another = dial();
  another.socket.write("late");
  // A second proxy passes bytes in the meantime: time enough for this one to have passed them.
  const free = await open(t);
  const { socket: other, seen: otherSeen } = free.dial();
  other.write("passed");
  await until("another proxy passes", () => otherSeen.text === "passed");
  assert.deepEqual([seen.text, seen.isClosed, another.seen.text], ["one ", false, ""]);
  proxy.heal();
  socket.write("three");
  await until("all has come", () => seen.text === "one two three" && another.seen.text === "late");
});

test("a delay keeps the order", async (t) => {
  const { proxy, dial } = await open(t);
  proxy.delay(20);
  const { socket, seen } = dial();
  for (const word of ["a", "b", "c"]) socket.write(word);
  await until("all has come", () => seen.text === "abc");
  proxy.heal();
});

test("a proxy that leads nowhere refuses", async (t) => {
  await using proxy = await startProxy();
  const socket = connect(proxy.port, "127.0.0.1");
  t.after(() => socket.destroy());
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  assert.equal(error.code, "ECONNRESET");
});
