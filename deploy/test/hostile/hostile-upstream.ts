import { createHash } from "node:crypto";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { answerOf, pieceBytesOf, socketFrames } from "./hostile-answers.ts";

// A provider that does harm, in a process of its own. It writes its port and goes on until its standard input ends.

const headEnd = "\r\n\r\n";
const keptBytes = 4_096;

/** Writes as fast as it is read, and no faster. */
async function write(socket: Socket, bytes: Buffer, pieceBytes: number): Promise<void> {
  for (let at = 0; at < bytes.length && !socket.destroyed; at += pieceBytes) {
    const piece = bytes.subarray(at, at + pieceBytes);
    await new Promise<void>((written) => {
      socket.once("close", written);
      socket.write(piece, () => {
        socket.off("close", written);
        written();
      });
    });
  }
}

// RFC 6455, 4.2.2.
const handshakeGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Becomes a WebSocket, and says large things without being asked. */
function speak(socket: Socket, head: string): void {
  const key = /sec-websocket-key: (\S+)/i.exec(head)?.[1] ?? "";
  const accept = createHash("sha1").update(`${key}${handshakeGuid}`).digest("base64");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Accept: ${accept}${headEnd}`,
  );
  socket.removeAllListeners("data").resume();
  void write(socket, socketFrames(), 256 * 1024);
}

const isClosing = (answer: Buffer): boolean => answer.subarray(0, 200).includes("Connection: close");

/** Reads requests without keeping them: the model stands at one end of a body or in the path. */
function serve(socket: Socket): void {
  let head = "";
  let left = -1;
  let kept = "";
  const answer = async (): Promise<void> => {
    const path = head.split(" ")[1] ?? "";
    const model = /"model":"([^"]+)"/.exec(kept)?.[1] ?? "";
    const bytes = answerOf(path, model);
    [head, left, kept] = ["", -1, ""];
    await write(socket, bytes, pieceBytesOf(model));
    if (isClosing(bytes)) socket.end();
  };
  const take = (chunk: Buffer): void => {
    let body = chunk;
    if (left === -1) {
      head += chunk.toString("latin1");
      const end = head.indexOf(headEnd);
      if (end === -1) return;
      body = Buffer.from(head.slice(end + headEnd.length), "latin1");
      head = head.slice(0, end);
      if (/upgrade: websocket/i.test(head)) return speak(socket, head);
      left = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    }
    if (kept.length < keptBytes) kept += body.toString("latin1", 0, keptBytes);
    left -= body.length;
    if (left <= 0) void answer();
  };
  socket
    .setNoDelay(true)
    .on("data", take)
    .on("error", () => socket.destroy());
}

const server = createServer(serve).listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
process.stdin.resume().on("end", () => process.exit(0));
