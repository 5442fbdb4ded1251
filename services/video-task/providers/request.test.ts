import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createPools } from "#shared/catalog/pools.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { until } from "#shared/testing/until.ts";
import { type ProviderResult, createProviderRequests } from "./request.ts";
import type { ProviderRequest } from "./provider.ts";
import { upstreamAt } from "../testing/upstream-at.ts";

type Listening = AsyncDisposable & { url: string; sockets: Set<Socket>; connections: () => number };

/** Serves on a free loopback port; disposal cuts every connection. */
async function listen(server: Server): Promise<Listening> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on("connection", (socket: Socket) => {
    connections += 1;
    sockets.add(socket.on("error", () => undefined));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    connections: () => connections,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const serve = (listener: RequestListener): Promise<Listening> => listen(createHttpServer(listener));

const post: ProviderRequest = {
  method: "POST",
  path: "/v1/videos",
  headers: ["authorization", "Bearer secret-of-the-studio", "content-type", "text/plain"],
  body: Buffer.from("a tide pool"),
};
const get: ProviderRequest = { method: "GET", path: "/v1/videos/video_1", headers: [], body: undefined };

async function askOnce(upstream: Upstream, request = post): Promise<ProviderResult> {
  await using pools = createPools();
  return await createProviderRequests(pools)(upstream, request);
}

/** The answer to a request, when the server answers with this. */
async function answerTo(listener: RequestListener, changes: Partial<Upstream> = {}): Promise<ProviderResult> {
  await using server = await serve(listener);
  return await askOnce(upstreamAt(server.url, changes));
}

const answered = (status: number, body: unknown, retryAfterSeconds?: number): ProviderResult => ({
  kind: "answer",
  answer: { status, body, retryAfterSeconds },
});

const kindOf = (result: ProviderResult): string => result.kind;

describe("what goes out", () => {
  test("the request as it is written, the operator's headers, and that nothing may be encoded", async () => {
    let seen: { request: IncomingMessage; body: string } | undefined;
    const headers = ["OpenAI-Project", "proj_of_ours"];
    await using server = await serve((request, response) => {
      const received = { request, body: "" };
      request.on("data", (chunk: Buffer) => (received.body += chunk.toString()));
      request.once("end", () => {
        seen = received;
        response.end("{}");
      });
    });
    await askOnce(upstreamAt(`${server.url}/tenant/`, { headers }));
    assert.deepEqual([seen?.request.method, seen?.request.url], ["POST", "/tenant/v1/videos"]);
    assert.equal(seen?.body, "a tide pool");
    const sent = seen?.request.headers;
    assert.equal(sent?.authorization, "Bearer secret-of-the-studio");
    assert.deepEqual([sent?.["openai-project"], sent?.["accept-encoding"]], ["proj_of_ours", "identity"]);
  });

  test("a request without a body has none", async () => {
    await using server = await serve((request, response) => {
      response.end(JSON.stringify({ length: request.headers["content-length"] ?? null, method: request.method }));
    });
    assert.deepEqual(await askOnce(upstreamAt(server.url), get), answered(200, { length: null, method: "GET" }));
  });

  test("connections are kept for the next question", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    await using pools = createPools();
    const requestProvider = createProviderRequests(pools);
    const upstream = upstreamAt(server.url);
    await requestProvider(upstream, get);
    // A connection is free a turn after its answer.
    await setImmediate();
    await requestProvider(upstream, get);
    assert.equal(server.connections(), 1);
  });
});

describe("an answer", () => {
  test("its status, its JSON, its wait in seconds", async () => {
    const result = await answerTo((_, response) => {
      response.writeHead(429, { "retry-after": "7" }).end('{"error":{"message":"slow"}}');
    });
    assert.deepEqual(result, answered(429, { error: { message: "slow" } }, 7));
  });

  test("a wait that is a date", async () => {
    const result = await answerTo((_, response) => {
      response.writeHead(503, { "retry-after": new Date(Date.now() + 90_000).toUTCString() }).end();
    });
    assert.ok(result.kind === "answer" && result.answer.retryAfterSeconds !== undefined);
    const { retryAfterSeconds } = result.answer;
    assert.ok(retryAfterSeconds > 60 && retryAfterSeconds <= 91, `${retryAfterSeconds} s`);
  });

  test("what is no JSON leaves the status", async () => {
    assert.deepEqual(await answerTo((_, response) => response.end("<html>Welcome</html>")), answered(200, undefined));
    assert.deepEqual(await answerTo((_, response) => response.end()), answered(200, undefined));
  });

  test("a redirect is not followed", async () => {
    await using elsewhere = await serve((_, response) => response.end("{}"));
    const result = await answerTo((_, response) => response.writeHead(307, { location: elsewhere.url }).end());
    assert.deepEqual(result, answered(307, undefined));
    assert.equal(elsewhere.connections(), 0);
  });

  test("1 MiB is read, one byte more is not, and the connection is given up", { timeout: 10_000 }, async () => {
    const text = JSON.stringify("x".repeat(1_048_576 - 2));
    const whole = await answerTo((_, response) => response.end(text));
    assert.equal(whole.kind === "answer" && (whole.answer.body as string).length, 1_048_574);
    await using server = await serve((_, response) => {
      response.write(`${text} `);
    });
    const patient = upstreamAt(server.url, { idleTimeoutMs: 60_000, totalTimeoutMs: 60_000 });
    assert.deepEqual(await askOnce(patient), answered(200, undefined));
    await until("the connection is closed", () => [...server.sockets].every(({ destroyed }) => destroyed));
  });

  test("one that breaks off after its JSON is read all the same", async () => {
    const result = await answerTo((_, response) => {
      response.writeHead(200, { "content-length": 100 });
      response.write('{"id":"video_1"}', () => response.destroy());
    });
    assert.deepEqual(result, answered(200, { id: "video_1" }));
  });

  test("one that breaks off after its head says its status; a 2xx of which nothing is known", async () => {
    const cut: RequestListener = (_, response) => {
      response.writeHead(response.req.headers["x-no"] ? 400 : 200, { "content-length": 100 });
      response.write('{"id":"video_1"', () => response.destroy());
    };
    assert.deepEqual(await answerTo(cut), answered(200, undefined));
    assert.deepEqual(await answerTo(cut, { headers: ["x-no", "yes"] }), answered(400, undefined));
  });

  test("one that stands still after its head says its status", async () => {
    const result = await answerTo((_, response) => void response.writeHead(429).write("{"), { idleTimeoutMs: 50 });
    assert.deepEqual(result, answered(429, undefined));
  });

  test("1xx before the answer are none", async () => {
    const result = await answerTo((_, response) => {
      response.writeProcessing();
      response.end('{"id":"video_1"}');
    });
    assert.deepEqual(result, answered(200, { id: "video_1" }));
  });

  test("what gives access to the upstream is taken out of its texts, not out of names", async () => {
    const proxied = { credential: "secret-of-the-studio", headers: ["x-team", "team-of-ours"] };
    const said = "secret-of-the-studio of team-of-ours";
    const result = await answerTo(
      (_, response) => response.end(JSON.stringify({ error: { message: said }, id: said })),
      proxied,
    );
    assert.deepEqual(result, answered(200, { error: { message: "[hidden] of [hidden]" }, id: said }));
  });
});

describe("certainly not seen by the provider", () => {
  test("the connection is refused", async () => {
    const server = await serve(() => undefined);
    await server[Symbol.asyncDispose]();
    const result = await askOnce(upstreamAt(server.url));
    assert.ok(result.kind === "unsent" && result.cause.includes("ECONNREFUSED"), JSON.stringify(result));
  });

  test("the name is unknown", async () => {
    assert.equal(kindOf(await askOnce(upstreamAt("http://no-such-host.invalid"))), "unsent");
  });

  test("TLS fails before the request", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    assert.equal(kindOf(await askOnce(upstreamAt(server.url.replace("http:", "https:")))), "unsent");
  });

  test("a connection that is reset, or does not come about in time, before the request", async () => {
    await using resetting = await listen(createTcpServer((socket) => void socket.resetAndDestroy()));
    const overTls = (url: string) => url.replace("http:", "https:");
    assert.equal(kindOf(await askOnce(upstreamAt(overTls(resetting.url)))), "unsent");
    await using silent = await listen(createTcpServer(() => undefined));
    const result = await askOnce(upstreamAt(overTls(silent.url), { connectTimeoutMs: 50 }));
    assert.equal(kindOf(result), "unsent");
  });

  test("no connection was free within the time for all of it; nothing is sent later", async () => {
    const methods: (string | undefined)[] = [];
    await using server = await serve(({ method }, response) => {
      methods.push(method);
      response.writeHead(200);
      response.write("{");
    });
    await using pools = createPools();
    const requestProvider = createProviderRequests(pools);
    const busy = upstreamAt(server.url, { maxConcurrent: 1, totalTimeoutMs: 400 });
    const first = requestProvider(busy, get);
    await until("the first is under way", () => methods.length === 1);
    const second = await requestProvider({ ...busy, totalTimeoutMs: 50 }, post);
    assert.equal(kindOf(second), "unsent");
    assert.deepEqual(await first, answered(200, undefined));
    // The third goes over the connection that the second waited for.
    await requestProvider(busy, get);
    assert.deepEqual(methods, ["GET", "GET"]);
  });

  test("a header that cannot be written", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    const result = await askOnce(upstreamAt(server.url), { ...get, headers: ["x-a", "two\r\nlines"] });
    assert.equal(kindOf(result), "unsent");
    assert.equal(server.connections(), 0);
  });

  test("the pools are closed", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    const pools = createPools();
    const upstream = upstreamAt(server.url);
    pools.poolOf(upstream);
    await pools[Symbol.asyncDispose]();
    assert.equal(kindOf(await createProviderRequests(pools)(upstream, get)), "unsent");
  });
});

describe("perhaps seen by the provider", () => {
  test("reset before the request was read to its end", async () => {
    const large = { ...post, body: Buffer.alloc(4_000_000) };
    await using server = await serve((request) => void request.once("data", () => request.socket.resetAndDestroy()));
    assert.equal(kindOf(await askOnce(upstreamAt(server.url), large)), "silent");
  });

  test("cut and reset after the request was read; it is not sent again", async () => {
    for (const end of ["destroy", "resetAndDestroy"] as const) {
      let requests = 0;
      await using server = await serve((request) => {
        requests += 1;
        request.resume().once("end", () => request.socket[end]());
      });
      assert.equal(kindOf(await askOnce(upstreamAt(server.url), post)), "silent");
      assert.equal(kindOf(await askOnce(upstreamAt(server.url), get)), "silent");
      assert.equal(requests, 2);
    }
  });

  test("no head within the time for it", async () => {
    assert.equal(kindOf(await answerTo(() => undefined, { firstByteTimeoutMs: 50 })), "silent");
  });

  test("no head within the time for all of it", async () => {
    assert.equal(kindOf(await answerTo(() => undefined, { totalTimeoutMs: 50 })), "silent");
  });

  test("1xx, and then nothing more", async () => {
    const result = await answerTo((_, response) => {
      response.writeProcessing(() => response.destroy());
    });
    assert.equal(kindOf(result), "silent");
  });

  test("an answer that is no HTTP", async () => {
    await using server = await listen(
      createTcpServer((socket) => void socket.once("data", () => socket.end("hello\r\n\r\n"))),
    );
    assert.equal(kindOf(await askOnce(upstreamAt(server.url))), "silent");
  });
});
