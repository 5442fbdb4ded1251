import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import { createPools } from "#shared/catalog/pools.ts";
import { until } from "#shared/testing/until.ts";
import { askOver, listen, upstreamAt, wholeOf } from "../testing/sending.ts";

// What an upstream sends behind an answer is nobody's: least of all the next caller's answer.

const whole = (text: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n";

const rows: [what: string, answer: string, behind: string][] = [
  ["a second answer", whole("ok"), whole("of another")],
  ["a second answer behind chunks and a trailer", chunked, whole("of another")],
  ["more than its length", whole("ok"), " and more"],
  ["an early head and an answer", whole("ok"), `HTTP/1.1 103 Early Hints\r\n\r\n${whole("of another")}`],
];

for (const [what, answer, behind] of rows) {
  for (const isLater of [false, true]) {
    test(
      `${what} ${isLater ? "a moment behind" : "with"} an answer is given to nobody`,
      { timeout: 60_000 },
      async () => {
        const asked: Socket[] = [];
        await using server = await listen(
          createServer((socket) =>
            socket.on("data", () => {
              asked.push(socket);
              if (asked.length > 1) socket.write(whole("mine"));
              else socket.write(isLater ? answer : answer + behind);
            }),
          ),
        );
        await using pools = createPools();
        const upstream = upstreamAt(server.port);
        assert.equal(await wholeOf(askOver(pools, upstream)), "ok");
        if (isLater) asked[0]?.write(behind);
        await until("the connection is given up", () => asked[0]?.destroyed === true);
        assert.equal(await wholeOf(askOver(pools, upstream)), "mine");
      },
    );
  }
}
