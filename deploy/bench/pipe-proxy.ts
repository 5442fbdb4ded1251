import { Agent, createServer, request as call } from "node:http";
import { announce, upstreamOrigin } from "./proxy-process.ts";

// The proxy that most people write first: node:http in, node:http out, two pipes.

const { hostname, port } = new URL(upstreamOrigin());
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, response) => {
  const { method, url: path, headers } = incoming;
  const outgoing = call({ hostname, port, method, path, agent, headers: { ...headers, connection: "keep-alive" } });
  outgoing.on("response", (answer) => {
    const { "keep-alive": _, connection: __, ...kept } = answer.headers;
    response.writeHead(answer.statusCode ?? 502, kept);
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy());
  response.on("close", () => {
    if (!response.writableEnded) outgoing.destroy();
  });
  incoming.pipe(outgoing);
});
server.keepAliveTimeout = 600_000;
announce(server);
