import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";

/** A caller on a bare socket, to see the very bytes and to be as rude as callers are. */
export type RawClient = {
  socket: Socket;
  /** What has come back so far: the head and the body as they stood on the wire. */
  head: () => string;
  body: () => Buffer;
  /** Resolves when the server has closed the connection. */
  closed: Promise<void>;
};

/** Connects and reads from the start; `isReading` false leaves everything in the socket until it is resumed. */
export async function connectRaw(port: number, isReading = true): Promise<RawClient> {
  const socket = connect({ port, host: "127.0.0.1" });
  await once(socket, "connect");
  socket.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  if (!isReading) socket.pause();
  const all = (): Buffer => Buffer.concat(chunks);
  const headEnd = (): number => all().indexOf("\r\n\r\n");
  return {
    socket,
    closed,
    head: () => all().toString("latin1", 0, Math.max(0, headEnd())),
    body: () => (headEnd() === -1 ? Buffer.alloc(0) : all().subarray(headEnd() + 4)),
  };
}

/** An HTTP server on a free loopback port; disposal closes it with all its connections. */
export async function serveHttp(listener: RequestListener): Promise<AsyncDisposable & { port: number }> {
  const server = createServer(listener).on("checkContinue", listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
