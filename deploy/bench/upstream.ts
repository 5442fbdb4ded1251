import { createServer, type AddressInfo, type Socket } from "node:net";
import { gapMs, instantDigits, instantMark, releasePath, streamChunks, wantedKind } from "./answers.ts";
import { createRequestReader } from "./request-reader.ts";
import { wholeAnswer, wireOf, wires, type WireName } from "./wire.ts";

// A provider that costs almost nothing: raw sockets, answers made once. Prints its port as JSON when it listens.

type PreparedWire = { whole: Buffer; start: Buffer; content: Buffer; instantAt: number; rest: Buffer; burst: Buffer };

const prepared = Object.fromEntries(
  (Object.keys(wires) as WireName[]).map((name): [WireName, PreparedWire] => [name, prepare(name)]),
) as Record<WireName, PreparedWire>;

/** Streams that stay open until they are released. */
const idle = new Set<{ socket: Socket; rest: Buffer }>();

const server = createServer({ noDelay: true }, (socket) => {
  const read = createRequestReader((path, bodyStart) => {
    if (path === releasePath) release(socket);
    else answer(socket, prepared[wireOf(path)], bodyStart);
  });
  socket.on("error", () => socket.destroy());
  socket.on("data", read);
});
server.listen(0, "127.0.0.1", 4_096, () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});

function answer(socket: Socket, wire: PreparedWire, bodyStart: Buffer): void {
  const kind = wantedKind(bodyStart);
  if (kind === "json") socket.write(wire.whole);
  else if (kind === "burst") socket.write(wire.burst);
  else if (kind === "paced") speakSlowly(socket, wire);
  else {
    socket.write(Buffer.concat([wire.start, wire.content]));
    const stream = { socket, rest: wire.rest };
    idle.add(stream);
    socket.once("close", () => idle.delete(stream));
  }
}

function release(asker: Socket): void {
  const released = [...idle];
  idle.clear();
  for (const { socket, rest } of released) socket.write(rest);
  const body = JSON.stringify({ released: released.length });
  asker.write(`${headOf("application/json")}content-length: ${body.length}\r\n\r\n${body}`);
}

function speakSlowly(socket: Socket, { start, content, instantAt, rest }: PreparedWire): void {
  socket.write(start);
  let chunksLeft = streamChunks;
  const timer = setInterval(() => {
    if (socket.destroyed) return clearInterval(timer);
    const chunk = Buffer.from(content);
    const instantUs = (process.hrtime.bigint() / 1_000n).toString().padStart(instantDigits, "0");
    chunk.write(instantUs, instantAt, "latin1");
    socket.write(chunk);
    chunksLeft -= 1;
    if (chunksLeft > 0) return;
    clearInterval(timer);
    socket.write(rest);
  }, gapMs);
}

function prepare(name: WireName): PreparedWire {
  const wire = wires[name];
  const json = wholeAnswer(name);
  const streamHead = `${headOf("text/event-stream; charset=utf-8")}transfer-encoding: chunked\r\n\r\n`;
  const start = Buffer.concat([Buffer.from(streamHead), ...wire.start.map(chunked)]);
  const content = chunked(wire.content);
  const instantAt = content.indexOf(instantMark) + instantMark.length;
  // No two pieces of a real answer's text are the same, and a relay may use that they differ in nothing else.
  const numbered = (index: number): Buffer => {
    const chunk = Buffer.from(content);
    chunk.write(String(index).padStart(instantDigits, "0"), instantAt, "latin1");
    return chunk;
  };
  const rest = Buffer.concat([...wire.rest.map(chunked), Buffer.from("0\r\n\r\n")]);
  return {
    whole: Buffer.from(`${headOf("application/json")}content-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`),
    start,
    content,
    instantAt,
    rest,
    burst: Buffer.concat([start, ...Array.from({ length: streamChunks }, (_, index) => numbered(index)), rest]),
  };
}

function headOf(contentType: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\nx-request-id: req_bench\r\n`;
}

function chunked(text: string): Buffer {
  return Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}
