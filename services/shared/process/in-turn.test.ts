import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "../testing/until.ts";
import { serveInTurn } from "./in-turn.ts";

const request = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";

/** A server whose answers the test gives, and a connection to it. */
async function start() {
  const server = createServer(() => assert.fail("who listened before"));
  const answers: ServerResponse[] = [];
  serveInTurn({ server, routing: (_request, response) => void answers.push(response) });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.on("error", () => undefined);
  let got = "";
  socket.on("data", (bytes) => (got += String(bytes)));
  return {
    answers,
    socket,
    got: () => got,
    [Symbol.dispose]: () => {
      socket.destroy();
      server.close();
    },
  };
}

test("two requests behind one that is not answered are served, again and again", async () => {
  using asking = await start();
  for (let round = 1; round <= 3; round += 1) {
    asking.socket.write(request.repeat(3));
    await until("all three have come", () => asking.answers.length === 3);
    for (const answer of asking.answers.splice(0)) answer.end("x");
    await until("all are answered", () => asking.got().split("200 OK").length === 1 + 3 * round);
  }
});

test("with a third the connection ends, and nothing that came with it is served", async () => {
  using asking = await start();
  const closed = once(asking.socket, "close");
  asking.socket.write(request.repeat(1_000));
  await closed;
  assert.equal(asking.answers.length, 3);
  assert.equal(asking.got(), "");
});
