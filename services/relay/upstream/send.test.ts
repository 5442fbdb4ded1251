import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { createServer as createTcpServer, type Socket } from "node:net";
import { describe, test } from "node:test";
import type { Pool } from "undici";
import { until } from "#shared/testing/until.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { SendError } from "./send.ts";
import { upstreamOf } from "../testing/fakes.ts";
import { askOver, connectionIsFree, isSendError, listen, serve, upstreamAt, wholeOf } from "../testing/sending.ts";
import { readWhole } from "./whole.ts";

test("connections are kept and used again; a call after a broken one gets a fresh one", async () => {
  const seen: Socket[] = [];
  await using server = await serve((request, response) => {
    seen.push(request.socket);
    if (seen.length === 3) request.socket.destroy();
    else response.end("fine");
  });
  await using pools = createPools();
  const upstream = upstreamAt(server.port);
  assert.equal(await wholeOf(askOver(pools, upstream)), "fine");
  await connectionIsFree();
  assert.equal(await wholeOf(askOver(pools, upstream)), "fine");
  assert.ok(seen[0] === seen[1], "one connection for both");
  await connectionIsFree();
  await assert.rejects(askOver(pools, upstream).answer, isSendError("upstream_unreachable", false));
  assert.equal(await wholeOf(askOver(pools, upstream)), "fine");
  assert.equal(seen.length, 4, "no request was sent a second time");
});

test("what is sent is what was asked for, once, and a redirect is an answer and not followed", async () => {
  const seen: { request: IncomingMessage; body: string }[] = [];
  await using elsewhere = await serve((_, response) => response.end("elsewhere"));
  await using server = await serve((request, response) => {
    const one = { request, body: "" };
    seen.push(one);
    request.on("data", (chunk: Buffer) => (one.body += chunk.toString()));
    request.once("end", () => {
      response.writeHead(307, { location: `http://127.0.0.1:${elsewhere.port}/` }).end("go there");
    });
  });
  await using pools = createPools();
  const answer = await askOver(pools, upstreamAt(server.port)).answer;
  assert.deepEqual([answer.status, (await readWhole(answer, 100)).toString()], [307, "go there"]);
  assert.equal(elsewhere.sockets.size, 0);
  const [only] = seen;
  assert.equal(seen.length, 1);
  assert.equal(only?.body, "question");
  assert.equal(only?.request.headers.authorization, "Bearer secret-of-ours");
});

describe("certainly unsent: another upstream may be asked", () => {
  test("the connection is refused", async () => {
    const server = await serve(() => undefined);
    await server[Symbol.asyncDispose]();
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port));
    await assert.rejects(asked.answer, isSendError("upstream_unreachable", true));
    assert.equal(asked.overs(), 1);
  });

  test("the name does not resolve", async () => {
    await using pools = createPools();
    const baseUrl = new URL("http://nowhere.invalid");
    await assert.rejects(askOver(pools, upstreamOf({ baseUrl })).answer, isSendError("upstream_unreachable", true));
  });

  test("TLS is not agreed on in time, whatever is on the other side", async () => {
    await using silent = await listen(createTcpServer(() => undefined));
    await using pools = createPools();
    const baseUrl = new URL(`https://127.0.0.1:${silent.port}`);
    const asked = askOver(pools, upstreamOf({ baseUrl, connectTimeoutMs: 100 }));
    await assert.rejects(asked.answer, isSendError("upstream_unreachable", true));
  });

  test("the connection breaks while TLS is agreed on", async () => {
    await using rude = await listen(createTcpServer((socket) => socket.resetAndDestroy()));
    await using pools = createPools();
    const baseUrl = new URL(`https://127.0.0.1:${rude.port}`);
    await assert.rejects(askOver(pools, upstreamOf({ baseUrl })).answer, isSendError("upstream_unreachable", true));
  });
});

describe("perhaps sent: no other upstream may be asked", () => {
  test("the connection is reset after the request", async () => {
    await using server = await serve((request) => request.socket.resetAndDestroy());
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port));
    await assert.rejects(asked.answer, isSendError("upstream_unreachable", false));
    assert.equal(asked.overs(), 1);
  });

  test("the first byte does not come in time", async () => {
    await using server = await serve(() => undefined);
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port, { firstByteTimeoutMs: 100 }));
    await assert.rejects(asked.answer, isSendError("upstream_timeout", false));
    assert.equal(asked.overs(), 1);
  });

  test("the whole answer does not come in time, and not even its head did", async () => {
    await using server = await serve(() => undefined);
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port, { totalTimeoutMs: 100 }));
    await assert.rejects(asked.answer, isSendError("upstream_timeout", false));
    await until("the upstream was cancelled", () => server.sockets.size === 0);
  });
});

test("an answer that stalls longer than the idle timeout fails as a timeout", async () => {
  await using server = await serve((_, response) => void response.writeHead(200).write("half"));
  await using pools = createPools();
  const asked = askOver(pools, upstreamAt(server.port, { idleTimeoutMs: 100 }));
  await assert.rejects(wholeOf(asked), isSendError("upstream_timeout", false));
  assert.equal(asked.overs(), 1);
});

test("an answer that flows without end is cut when the total time is over, paused or not", async () => {
  await using server = await serve((_, response) => {
    const timer = setInterval(() => response.write("piece"), 10);
    response.once("close", () => clearInterval(timer));
    response.writeHead(200).write("piece");
  });
  await using pools = createPools();
  for (const isPaused of [false, true]) {
    const asked = askOver(pools, upstreamAt(server.port, { totalTimeoutMs: 150 }));
    const answer = await asked.answer;
    if (isPaused) answer.pause();
    await assert.rejects(readWhole(answer, 1_000_000), isSendError("upstream_timeout", false));
    assert.equal(asked.overs(), 1);
    await until("the upstream was cancelled", () => server.sockets.size === 0);
  }
});

test("a request is over once: at its end, when it is aborted, and not before", async () => {
  await using server = await serve((_, response) => {
    response.writeHead(200).flushHeaders();
    response.write("piece");
  });
  await using pools = createPools();
  const asked = askOver(pools, upstreamAt(server.port));
  const answer = await asked.answer;
  assert.equal(asked.overs(), 0);
  answer.abort();
  assert.equal(asked.overs(), 1);
  answer.abort();
  asked.abort();
  assert.equal(asked.overs(), 1);
  await until("the upstream was cancelled", () => server.sockets.size === 0);
});

test("an answer that is aborted by what came with its head fails once, and gives nothing more", async () => {
  await using server = await listen(
    createTcpServer((socket) =>
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n");
      }),
    ),
  );
  await using pools = createPools();
  const asked = askOver(pools, upstreamAt(server.port));
  const answer = await asked.answer;
  const steps: string[] = [];
  answer.consume({
    data: (chunk) => {
      steps.push(chunk.toString());
      answer.abort();
    },
    end: () => steps.push("end"),
    fail: () => steps.push("fail"),
  });
  assert.deepEqual(steps, ["one", "fail"]);
  assert.equal(asked.overs(), 1);
});

test("a request that is over leaves no timer behind", async () => {
  await using server = await serve((_, response) => response.end("fine"));
  await using pools = createPools();
  const upstream = upstreamAt(server.port);
  await Promise.all(Array.from({ length: 100 }, () => wholeOf(askOver(pools, upstream))));
  const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout");
  assert.ok(timers.length < 50, `${timers.length} timers`);
});

test("a caller who goes away before the connection is made takes the request with him, unsent", async () => {
  const seen: unknown[] = [];
  await using server = await serve((request) => void seen.push(request));
  await using pools = createPools();
  const asked = askOver(pools, upstreamAt(server.port));
  asked.abort();
  await assert.rejects(asked.answer, SendError);
  assert.equal(asked.overs(), 1);
  assert.deepEqual(seen, []);
});

test("pools of upstreams that are gone or changed are closed; an answer under way goes on to its end", async () => {
  const finish: (() => void)[] = [];
  await using server = await serve((_, response) => {
    response.writeHead(200).write("first ");
    finish.push(() => response.end("last"));
  });
  await using pools = createPools();
  const upstream = upstreamAt(server.port);
  const answer = await askOver(pools, upstream).answer;
  const before = pools.poolOf(upstream);
  pools.retain([upstream]);
  assert.equal(pools.poolOf(upstream), before);
  pools.retain([]);
  const whole = readWhole(answer, 100);
  finish[0]?.();
  assert.equal((await whole).toString(), "first last");
  await until("the connection is closed", () => server.sockets.size === 0);
  assert.equal((before as Pool).closed, true);
  assert.notEqual(pools.poolOf(upstream), before);
});

describe("an upstream may bill a call once it has all of it and has not refused it", () => {
  test("a small request at once, until the upstream answers with an error", async () => {
    let refuse: (() => void) | undefined;
    await using server = await serve((_, response) => {
      refuse = () => response.writeHead(500).end("no");
    });
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port));
    assert.equal(asked.isBillable(), false, "there is no connection yet");
    await until("the upstream has it", () => refuse !== undefined);
    assert.equal(asked.isBillable(), true);
    refuse?.();
    await asked.answer;
    assert.equal(asked.isBillable(), false);
  });

  test("not while a large one is still being sent", async () => {
    let hasConnected = false;
    await using deaf = await listen(
      createTcpServer((socket) => {
        hasConnected = true;
        socket.pause();
      }),
    );
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(deaf.port), { body: Buffer.alloc(64_000_000) });
    await until("it is connected", () => hasConnected);
    assert.equal(asked.isBillable(), false);
    asked.abort();
    await assert.rejects(asked.answer, SendError);
    assert.equal(asked.isBillable(), false);
  });

  test("200 alone says that it has taken the call, all of it or not", async () => {
    await using server = await serve((_, response) => void response.end("fine"));
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port));
    await asked.answer;
    assert.equal(asked.isBillable(), true);
  });
});
