import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "../testing/until.ts";
import { followConnections } from "./connections.ts";

/** A server whose answers the test gives, and one connection to it on which requests are sent without waiting. */
async function startAsking() {
  const server = createServer();
  const connections = followConnections(server);
  const answers: ServerResponse[] = [];
  server.on("request", (_request, response) => answers.push(response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let got = "";
  socket.on("data", (bytes) => (got += String(bytes)));
  return {
    connections,
    answers,
    got: () => got,
    ask: () => socket.write("GET / HTTP/1.1\r\nhost: here\r\n\r\n"),
    closed: once(socket, "close"),
    [Symbol.dispose]: () => {
      socket.destroy();
      server.close();
    },
  };
}

for (const order of ["before", "after"] as const) {
  test(`of requests sent ${order} the server leaves, one behind the other, the last answer says that it closes`, async () => {
    using asking = await startAsking();
    const { connections, answers, ask } = asking;
    if (order === "after") connections.leave();
    for (let count = 0; count < 3; count += 1) ask();
    await until("all are there", () => answers.length === 3);
    if (order === "before") connections.leave();
    answers.forEach((response, number) => response.end(`answer ${number}`));
    await asking.closed;
    const heads = asking.got().match(/connection: [a-z-]+/gi);
    assert.deepEqual(
      heads?.map((head) => head.toLowerCase()),
      ["connection: keep-alive", "connection: keep-alive", "connection: close"],
    );
    assert.match(asking.got(), /answer 0[^]*answer 1[^]*answer 2/);
    assert.equal(connections.requests().length, 0);
  });
}
