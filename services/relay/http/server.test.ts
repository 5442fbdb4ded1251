import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { until } from "#shared/testing/until.ts";
import { buildApp } from "../app.ts";
import { createBodyBudget } from "./body-budget.ts";
import { httpDialects } from "../dialects/index.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { defaultServerLimits } from "./server.ts";
import { listeningLog, modelOf, scriptedQuota, settlingOf } from "../testing/fakes.ts";
import { connectRaw, type RawClient } from "../testing/raw-client.ts";
import { createReplyRoom } from "./reply-room.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { readConfig } from "../config.ts";
import { loneConfig as config } from "../testing/lone-config.ts";
import { relayOf } from "../testing/relay-of.ts";

/** A key's check that ends when the test says so. */
let keyChecked = Promise.withResolvers<void>();
keyChecked.resolve();
const { log, lines } = listeningLog();
const quota = scriptedQuota(async () => {
  await keyChecked.promise;
  return {};
});
const settling = settlingOf({ quota, log });
await using pools = createPools();
await using threads = createThreads(countThreads(settling.metrics, settling.log));
const model = modelOf();
const relay = relayOf(
  { models: new Map([[model.id, model]]), settling, pools, threads },
  {
    bodyBudget: createBodyBudget(1_000_000),
    replies: createReplyRoom(1_000_000),
    limits: { maxReplyBytes: 1_000_000, maxEventBytes: 1_000_000 },
  },
);
const limits = { ...defaultServerLimits, headersTimeoutMs: 300, requestTimeoutMs: 600, checkEveryMs: 100 };
const app = buildApp(config, relay, { limits });
await app.listen({ host: "127.0.0.1", port: 0 });
const { port } = app.server.address() as AddressInfo;
after(() => app.close());

const models = "GET /v1/models HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer sk-right\r\n\r\n";

async function withClient(work: (client: RawClient) => Promise<void>): Promise<void> {
  const client = await connectRaw(port);
  try {
    await work(client);
  } finally {
    client.socket.destroy();
  }
}

const bodyOfFormat = {
  A: {
    error: { message: "The request could not be completed", type: "api_error", param: "", code: "invalid_request" },
  },
  B: { type: "error", error: { type: "invalid_request_error", message: "The request could not be completed" } },
};

/** Checks that the one answer on a connection is the API spec's for any other unprocessable request. */
async function checkRefused(client: RawClient, format: "A" | "B" = "A"): Promise<void> {
  await client.closed;
  assert.match(client.head(), /^HTTP\/1\.1 400 Bad Request\r\n/);
  assert.match(client.head(), /\r\nconnection: close(?:\r\n|$)/);
  const rid = /\r\nx-request-id: (\S+)\r\nrequest-id: \1\r\n/.exec(client.head())?.[1];
  assert.deepEqual(JSON.parse(client.body().toString()), bodyOfFormat[format]);
  assert.ok(lines.some((line) => line["rid"] === rid && line["msg"] === "request refused"));
}

const slow: [string, string, "A" | "B"][] = [
  ["nothing at all", "", "A"],
  ["half a head", "POST /v1/messages HTTP/1.1\r\nHost: rel", "A"],
  ["half a body", "POST /v1/messages HTTP/1.1\r\nHost: relay\r\nx-api-key: k\r\nContent-Length: 9\r\n\r\n{", "B"],
  [
    "half a chunk",
    "POST /v1/responses HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer k\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
    "A",
  ],
];
for (const [what, sent, format] of slow) {
  test(`API spec, Cases: Any other unprocessable request | 400: a caller who sends ${what} and waits`, () =>
    withClient(async (client) => {
      client.socket.write(sent);
      await checkRefused(client, format);
    }));
}

test("a few requests that come at once are answered, of many the connection is closed", async () => {
  await withClient(async (client) => {
    client.socket.write(models.repeat(3));
    await until(
      "three answers",
      () => `${client.head()}${client.body().toString()}`.split("HTTP/1.1 200 OK").length === 4,
    );
  });
  const before = lines.length;
  await withClient(async (client) => {
    client.socket.on("error", () => undefined).write(models.repeat(5_000));
    await client.closed;
  });
  assert.ok(lines.length - before < 10, "nor are they looked at");
});

test("what comes behind a whole request and is none is refused after the answer to that request", () =>
  withClient(async (client) => {
    client.socket.write(models);
    await until("the first answer", () => client.body().length > 0);
    client.socket.write("nonsense\r\n\r\n");
    await client.closed;
    const [first, second, ...more] = `${client.head()}\r\n\r\n${client.body().toString()}`.split(/(?=HTTP\/1\.1 )/);
    assert.match(first ?? "", /^HTTP\/1\.1 200 [^]*"object":"list"/);
    assert.match(second ?? "", /^HTTP\/1\.1 400 [^]*The request could not be completed/);
    assert.deepEqual(more, []);
  }));

test("what comes behind a request that waits for its answer is the one thing that is answered", () =>
  withClient(async (client) => {
    keyChecked = Promise.withResolvers();
    const asked = quota.operations.length;
    client.socket.write(models);
    await until("the key is asked for", () => quota.operations.length > asked);
    client.socket.write("nonsense\r\n\r\n");
    await until("the refusal is there", () => client.body().length > 0);
    keyChecked.resolve();
    await checkRefused(client);
  }));

test("whoever drains the server knows of each request that is being answered", () =>
  withClient(async (client) => {
    keyChecked = Promise.withResolvers();
    client.socket.write(models);
    await until("it is known", () => app.connections.requests().length === 1);
    keyChecked.resolve();
    await until("the answer", () => client.body().length > 0);
    await until("it is over", () => app.connections.requests().length === 0);
  }));

test("a caller who resets the connection after CONNECT, or behind a refusal, harms nobody", async () => {
  for (const sent of ["CONNECT relay:443 HTTP/1.1\r\nHost: relay\r\n\r\n", "nonsense\r\n\r\n"]) {
    await withClient(async (client) => {
      client.socket.write(sent);
      await until("the refusal is there", () => client.body().length > 0);
      client.socket.resetAndDestroy();
    });
  }
  const connections = promisify(app.server.getConnections.bind(app.server));
  await until("all have gone", async () => (await connections()) === 0);
});

test("a refused caller who expects 100-continue is not asked for the body", () =>
  withClient(async (client) => {
    client.socket.write(
      "POST /v1/nothing HTTP/1.1\r\nHost: relay\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    );
    await client.closed;
    assert.match(client.head(), /^HTTP\/1\.1 404 /);
  }));

test("what a caller still sends does not take the answer back: the refusal arrives whole, then the connection closes", () =>
  withClient(async (client) => {
    const garbage = Buffer.alloc(1_000_000, "x");
    for (let count = 0; count < 10; count += 1) client.socket.write(garbage);
    await checkRefused(client);
  }));

test("API spec, Cases: Service stopped or busy (maintenance) | 503: every path of the API, when auth-quota tells so", async () => {
  const asked = [
    ...httpDialects.map(({ path }) => ["POST", path]),
    ...["/v1/models", "/v1/models/m", "/v1/videos", "/v1/videos/task_1/content", "/v1/nothing"].map((path) => [
      "GET",
      path,
    ]),
  ];
  const ask = async ([method = "", path = ""]: string[]) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method });
    const text = await answer.text();
    return { status: answer.status, retryAfter: answer.headers.get("retry-after"), text };
  };
  quota.setMaintenance(true);
  for (const one of asked) {
    const { status, retryAfter, text } = await ask(one);
    assert.deepEqual([status, retryAfter], [503, "5"], one.join(" "));
    assert.match(text, /The service is temporarily unavailable, please try again later/);
  }
  assert.equal(lines.at(-1)?.["cause"], "maintenance");
  assert.equal((await ask(["GET", "/pricing"])).status, 404, "the website's paths are not the API's");
  quota.setMaintenance(false);
  for (const one of asked) assert.notEqual((await ask(one)).status, 503, one.join(" "));
});

for (const version of ["1.0", "1.1"]) {
  test(`a caller of HTTP/${version} who wants the connection closed behind a refusal gets that`, async () => {
    for (const [head, body] of [
      ["GET /v1/models", ""],
      ["POST /v1/chat/completions", "x".repeat(200_000)],
    ] as const) {
      const client = await connectRaw(port);
      const length = body === "" ? "" : `Content-Length: ${body.length}\r\n`;
      client.socket.write(`${head} HTTP/${version}\r\nHost: a\r\n${length}Connection: close\r\n\r\n${body}`);
      await client.closed;
      assert.equal(client.head().split(" ")[1], "401", head);
      assert.match(client.body().toString(), /"Invalid API key".*\}$/s);
    }
  });
}

test("TLS settings are both or neither", () => {
  const given = {
    ALLOW_PLAIN_GRPC: "always",
    AUTH_QUOTA_ADDRESS: "a",
    NATS_URL: "b",
    CATALOG_FILE: "c",
    SPOOL_DIR: "d",
  };
  assert.throws(() => readConfig({ ...given, TLS_CERT_FILE: "cert.pem" }), /TLS_CERT_FILE and TLS_KEY_FILE/);
  assert.throws(() => readConfig({ ...given, TLS_KEY_FILE: "key.pem" }), /TLS_CERT_FILE and TLS_KEY_FILE/);
  assert.equal(readConfig({ ...given, TLS_CERT_FILE: "c", TLS_KEY_FILE: "k" }).TLS_CERT_FILE, "c");
});

test("an address that has too many connections open gets no more until one closes", async () => {
  const narrow = buildApp({ ...config, MAX_CONNECTIONS_PER_ADDRESS: 2 }, relay, { limits });
  await narrow.listen({ host: "127.0.0.1", port: 0 });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => narrow.close());
  const connect = async (): Promise<RawClient> => {
    const client = await connectRaw((narrow.server.address() as AddressInfo).port);
    resources.defer(() => void client.socket.destroy());
    return client;
  };
  const [first, second] = [await connect(), await connect()];
  second.socket.write(models);
  await until("the second is served", () => second.head().startsWith("HTTP/1.1 200"));
  await (
    await connect()
  ).closed;
  assert.equal(lines.at(-1)?.["msg"], "too many connections of an address");
  first.socket.destroy();
  await until("there is room again", async () => {
    const next = await connect();
    next.socket.write(models);
    await until("it is served, or closed", () => next.head() !== "" || next.socket.destroyed);
    return next.head().startsWith("HTTP/1.1 200");
  });
});

test("a caller's address is what the nearest proxy says that is trusted, whatever else the caller says of himself", async () => {
  const forged =
    "GET /pricing HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1, 203.0.113.7\r\nX-Forwarded-Proto: https\r\n" +
    "Forwarded: for=198.51.100.2;proto=https\r\nX-Real-IP: 198.51.100.3\r\nX-Client-IP: 198.51.100.4\r\n" +
    "Connection: close\r\n\r\n";
  const rows = [
    ["127.0.0.1", "404", "203.0.113.7"],
    ["", "403", "127.0.0.1"],
    ["192.0.2.1", "403", "127.0.0.1"],
  ] as const;
  for (const [TRUSTED_PROXIES, status, ip] of rows) {
    const proxied = buildApp({ ...config, TRUSTED_PROXIES }, relay, { limits });
    await proxied.listen({ host: "127.0.0.1", port: 0 });
    await using resources = new AsyncDisposableStack();
    resources.defer(() => proxied.close());
    const client = await connectRaw((proxied.server.address() as AddressInfo).port);
    resources.defer(() => void client.socket.destroy());
    client.socket.write(forged);
    await until("the answer", () => client.head() !== "");
    assert.equal(client.head().split(" ")[1], status);
    assert.equal(lines.findLast((line) => "ip" in line)?.["ip"], ip);
  }
});
