import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer as createHttpsServer, type ServerOptions } from "node:https";
import { connect, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { makeCertificate } from "#shared/testing/certificate.ts";
import { until } from "#shared/testing/until.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { SendError } from "./send.ts";
import { upstreamOf } from "../testing/fakes.ts";
import {
  askOver,
  connectionIsFree,
  isSendError,
  listen,
  serve,
  upstreamAt,
  wholeOf,
  type Listening,
} from "../testing/sending.ts";

type Proxy = Listening & { asked: { target: string; authorization: string | undefined }[] };

/** A proxy that makes tunnels for those whose credentials are right. */
async function serveProxy(wanted?: string): Promise<Proxy> {
  const asked: Proxy["asked"] = [];
  const server = createHttpServer((_, response) => response.writeHead(405).end());
  server.on("connect", ({ url: target = "", headers }, socket: Socket) => {
    const authorization = headers["proxy-authorization"];
    asked.push({ target, authorization });
    socket.on("error", () => undefined);
    if (authorization !== wanted) return socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    const tunnel = connect(Number(target.split(":")[1]), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      tunnel.pipe(socket).pipe(tunnel);
    });
    tunnel.on("error", () => socket.destroy());
  });
  return { ...(await listen(server)), asked };
}

describe("proxy", () => {
  const basic = `Basic ${Buffer.from("someone:p@ss").toString("base64")}`;

  test("calls go through the tunnel of a proxy, over connections that are kept, and it never sees the request", async () => {
    const seen: IncomingMessage[] = [];
    await using server = await serve((request, response) => {
      seen.push(request);
      response.end("fine");
    });
    await using proxy = await serveProxy(basic);
    await using pools = createPools();
    const upstream = upstreamAt(server.port, { proxy: new URL(`http://someone:p%40ss@127.0.0.1:${proxy.port}`) });
    assert.equal(await wholeOf(askOver(pools, upstream)), "fine");
    await connectionIsFree();
    assert.equal(await wholeOf(askOver(pools, upstream)), "fine");
    assert.deepEqual(proxy.asked, [{ target: `127.0.0.1:${server.port}`, authorization: basic }]);
    assert.equal(seen.length, 2);
    for (const { headers } of seen) {
      assert.equal(headers.authorization, "Bearer secret-of-ours");
      assert.equal(headers["proxy-authorization"], undefined, "the upstream never sees the proxy's credentials");
    }
  });

  test("timeouts and aborts reach through a proxy, and the request is over once", async () => {
    await using server = await serve((_, response) => void response.writeHead(200).write("half"));
    await using proxy = await serveProxy();
    await using pools = createPools();
    const settings = { proxy: new URL(`http://127.0.0.1:${proxy.port}`), idleTimeoutMs: 100 };
    const stalled = askOver(pools, upstreamAt(server.port, settings));
    await assert.rejects(wholeOf(stalled), isSendError("upstream_timeout", false));
    const left = askOver(pools, upstreamAt(server.port, { ...settings, id: "patient", idleTimeoutMs: 60_000 }));
    (await left.answer).abort();
    assert.deepEqual([stalled.overs(), left.overs()], [1, 1]);
    await until("the upstream was cancelled", () => server.sockets.size === 0);
  });

  test("certainly unsent: a proxy that is not there, refuses, breaks off, cannot reach the upstream or is silent", async () => {
    await using server = await serve(() => assert.fail("the upstream was asked"));
    const gone = await serveProxy();
    await gone[Symbol.asyncDispose]();
    await using refusing = await serveProxy(basic);
    await using breaking = await listen(createTcpServer((socket) => socket.destroy()));
    await using open = await serveProxy();
    await using silent = await listen(createTcpServer(() => undefined));
    await using pools = createPools();
    const ports: [string, number, number][] = [
      ["gone", gone.port, server.port],
      ["refusing", refusing.port, server.port],
      ["breaking", breaking.port, server.port],
      ["cannot reach", open.port, gone.port],
      ["silent", silent.port, server.port],
    ];
    for (const [id, proxyPort, port] of ports) {
      const proxy = new URL(`http://127.0.0.1:${proxyPort}`);
      const asked = askOver(pools, upstreamAt(port, { id, proxy, connectTimeoutMs: 200 }));
      await assert.rejects(asked.answer, isSendError("upstream_unreachable", true), id);
      assert.equal(asked.overs(), 1, id);
    }
  });
});

type Pair = { cert: string; key: string };

const folder = mkdtempSync(join(tmpdir(), "relay-send-"));
after(() => rmSync(folder, { recursive: true }));

/** A certificate that is its own authority. */
async function createPair(name: string, hosts?: string): Promise<Pair> {
  const files = { certFile: join(folder, `${name}.crt`), keyFile: join(folder, `${name}.key`) };
  await makeCertificate(files, name, hosts);
  return { cert: readFileSync(files.certFile, "utf8"), key: readFileSync(files.keyFile, "utf8") };
}

describe("TLS", () => {
  const secure = (options: ServerOptions): Promise<Listening> =>
    listen(createHttpsServer(options, (request, response) => response.end(`hello ${request.socket.remotePort}`)));
  const at = (port: number, changes: Partial<Upstream> = {}): Upstream =>
    upstreamOf({ id: JSON.stringify([port, changes]), baseUrl: new URL(`https://127.0.0.1:${port}`), ...changes });

  test("a private authority is trusted where the catalog names it, and nowhere else", async () => {
    const own = await createPair("here");
    const stranger = await createPair("elsewhere");
    await using server = await secure(own);
    await using pools = createPools();
    assert.match(await wholeOf(askOver(pools, at(server.port, { tls: { ca: own.cert } }))), /^hello/);
    for (const tls of [undefined, { ca: stranger.cert }]) {
      await assert.rejects(askOver(pools, at(server.port, { tls })).answer, isSendError("upstream_unreachable", true));
    }
  });

  test("the name in the certificate must be the upstream's, or the one that the catalog names", async () => {
    const own = await createPair("internal", "DNS:api.internal");
    await using server = await secure(own);
    await using pools = createPools();
    const ca = own.cert;
    assert.match(await wholeOf(askOver(pools, at(server.port, { tls: { ca, servername: "api.internal" } }))), /^hello/);
    for (const tls of [{ ca }, { ca, servername: "other.internal" }]) {
      await assert.rejects(askOver(pools, at(server.port, { tls })).answer, isSendError("upstream_unreachable", true));
    }
  });

  test("an upstream that asks for a certificate gets the relay's", async () => {
    const own = await createPair("upstream");
    const client = await createPair("relay", "DNS:relay");
    await using server = await secure({ ...own, ca: client.cert, requestCert: true, rejectUnauthorized: true });
    await using pools = createPools();
    const tls = { ca: own.cert, ...client };
    assert.match(await wholeOf(askOver(pools, at(server.port, { tls }))), /^hello/);
    await assert.rejects(askOver(pools, at(server.port, { tls: { ca: own.cert } })).answer, SendError);
  });

  test("TLS goes to the upstream itself, through the tunnel of a proxy", async () => {
    const own = await createPair("behind", "DNS:api.internal");
    await using server = await secure(own);
    await using proxy = await serveProxy();
    await using pools = createPools();
    const settings = { proxy: new URL(`http://127.0.0.1:${proxy.port}`) };
    const tls = { ca: own.cert, servername: "api.internal" };
    assert.match(await wholeOf(askOver(pools, at(server.port, { ...settings, tls }))), /^hello/);
    const wrong = askOver(pools, at(server.port, { ...settings, tls: { ca: own.cert } }));
    await assert.rejects(wrong.answer, isSendError("upstream_unreachable", true));
    assert.equal(proxy.asked.length, 2);
  });
});
