import { createServer, type AddressInfo, type Socket } from "node:net";
import { gapMs, instantDigits, instantMark, jsonAnswer, streamAnswer, streamChunks, wantedKind } from "./answers.ts";
import { takeRequest } from "./request-reader.ts";

// A provider that costs almost nothing: raw sockets, answers made once. Prints its port as JSON when it listens.

const json = jsonAnswer();
const wholeAnswer = Buffer.from(
  `${headOf("application/json")}content-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
);
const streamHead = Buffer.from(`${headOf("text/event-stream; charset=utf-8")}transfer-encoding: chunked\r\n\r\n`);
const [firstFrame = "", contentFrame = "", ...otherFrames] = streamAnswer();
const lastFrames = otherFrames.slice(streamChunks - 1);
const streamStart = Buffer.concat([streamHead, chunked(firstFrame)]);
const contentChunk = chunked(contentFrame);
const instantAt = contentChunk.indexOf(instantMark) + instantMark.length;
const streamRest = Buffer.concat([...lastFrames.map(chunked), Buffer.from("0\r\n\r\n")]);
const burstAnswer = Buffer.concat([
  streamStart,
  ...Array.from({ length: streamChunks }, () => contentChunk),
  streamRest,
]);

const server = createServer({ noDelay: true }, (socket) => {
  let waiting: Buffer = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (bytes) => {
    waiting = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
    for (let taken = takeRequest(waiting); taken; taken = takeRequest(waiting)) {
      waiting = taken.rest;
      answer(socket, taken.body);
    }
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});

function answer(socket: Socket, body: Buffer): void {
  const kind = wantedKind(body);
  if (kind === "json") socket.write(wholeAnswer);
  else if (kind === "burst") socket.write(burstAnswer);
  else speakSlowly(socket);
}

function speakSlowly(socket: Socket): void {
  socket.write(streamStart);
  let chunksLeft = streamChunks;
  const timer = setInterval(() => {
    if (socket.destroyed) return clearInterval(timer);
    const chunk = Buffer.from(contentChunk);
    const instantUs = (process.hrtime.bigint() / 1_000n).toString().padStart(instantDigits, "0");
    chunk.write(instantUs, instantAt, "latin1");
    socket.write(chunk);
    chunksLeft -= 1;
    if (chunksLeft > 0) return;
    clearInterval(timer);
    socket.write(streamRest);
  }, gapMs);
}

function headOf(contentType: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\nx-request-id: req_bench\r\n`;
}

function chunked(text: string): Buffer {
  return Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}
