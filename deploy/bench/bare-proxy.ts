import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Pool, type Dispatcher } from "undici";
import { announce, upstreamOrigin, withoutConnection } from "./proxy-process.ts";

// The least that a proxy in Node can be: node:http in, undici's dispatch out, chunks as they come, back-pressure.
// No keys, no money, no limits. What the relay costs is measured against it.

const pool = new Pool(upstreamOrigin(), { pipelining: 1, allowH2: false });

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => forward(request, response, parts.length === 1 ? parts[0] : Buffer.concat(parts)));
});
server.keepAliveTimeout = 600_000;
announce(server);

function forward(request: IncomingMessage, response: ServerResponse, body: Buffer | undefined): void {
  let upstream: Dispatcher.DispatchController | undefined;
  response.on("drain", () => upstream?.resume());
  response.on("close", () => {
    if (!response.writableEnded) upstream?.abort(new Error("the caller is gone"));
  });
  const { method = "POST", url: path = "/" } = request;
  pool.dispatch(
    { method, path, headers: withoutConnection(request.headers), body: body ?? null },
    {
      onRequestStart: (controller) => {
        upstream = controller;
      },
      onResponseStart: (_, status, headers) => void response.writeHead(status, withoutConnection(headers)),
      onResponseData: (controller, chunk) => {
        if (!response.write(chunk)) controller.pause();
      },
      onResponseEnd: () => void response.end(),
      onResponseError: () => {
        if (response.headersSent) response.destroy();
        else response.writeHead(502, { "content-length": 0 }).end();
      },
    },
  );
}
