import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { fingerprintOf, makeCertificate } from "#shared/testing/certificate.ts";
import { until } from "#shared/testing/until.ts";
import { bodyOf, chat, messages, sides } from "./ask.ts";
import { modelOn, testCatalog, upstreamAt } from "./catalog.ts";
import { startWorld } from "./world.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-tls-"));
const files = { certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
await makeCertificate(files, "first");
const firstCertificate = readFileSync(files.certFile);
const firstFingerprint = fingerprintOf(files.certFile);

/** An upstream that streams its first word at once and the rest when it is told to. */
const goOn = Promise.withResolvers<void>();
const upstream = createServer((asked, answer) => {
  asked.resume();
  const choice = (text: string, more = "") =>
    `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"${text}"}${more}}]}\n\n`;
  answer.writeHead(200, { "content-type": "text/event-stream" }).write(choice("before"));
  void goOn.promise.then(() => {
    const usage =
      'data: {"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n';
    answer.end(`${choice("after", ',"finish_reason":"stop"')}${usage}data: [DONE]\n\n`);
  });
});
upstream.listen(0, "127.0.0.1");
await once(upstream, "listening");
const upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;

const world = await startWorld({
  catalog: (fakeUrl) =>
    testCatalog(fakeUrl, {
      upstreams: { gated: upstreamAt(upstreamUrl) },
      models: { "gated-model": modelOn("gated") },
    }),
  serviceEnvironment: {
    relay: { TLS_CERT_FILE: files.certFile, TLS_KEY_FILE: files.keyFile, ALLOW_PLAIN_HTTP: "never" },
  },
});
after(async () => {
  upstream.closeAllConnections();
  upstream.close();
  rmSync(folder, { recursive: true, force: true });
  await world[Symbol.asyncDispose]();
});

const port = Number(new URL(world.relayUrl).port);
let customer: Awaited<ReturnType<typeof world.createCustomer>>;
before(async () => (customer = await world.createCustomer()));

type RequestOptions = { path: string; method?: string; headers: Record<string, string>; body?: string; agent?: Agent };

/** Asks over TLS, trusting the certificate that lies in the folder now, and gives the answer when its head is there. */
async function askSecurely({ path, method = "POST", headers, body, agent }: RequestOptions): Promise<IncomingMessage> {
  // An agent that keeps connections keeps what it trusts, too.
  const ca = agent ? firstCertificate : readFileSync(files.certFile);
  const asking = request({ host: "127.0.0.1", port, path, method, headers, ca, agent: agent ?? false });
  asking.end(body);
  const [answer] = (await once(asking, "response")) as [IncomingMessage];
  return answer;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of answer.setEncoding("utf8")) text += piece as string;
  return text;
}

const fingerprintServed = (answer: IncomingMessage): string =>
  (answer.socket as TLSSocket).getPeerCertificate().fingerprint256;

const askForModels = (agent?: Agent): Promise<IncomingMessage> =>
  askSecurely({
    path: "/v1/models",
    method: "GET",
    headers: chat.headers(customer.secret),
    ...(agent ? { agent } : {}),
  });

for (const side of sides) {
  test(`API spec, Authentication: 3. Only HTTPS is accepted: ${side.path} over TLS that the relay serves itself`, async () => {
    const answer = await askSecurely({
      path: side.path,
      headers: side.headers(customer.secret),
      body: bodyOf({ side }),
    });
    const text = await textOf(answer);
    assert.equal(answer.statusCode, 200, text);
    await world.untilBooked(customer.accountId, String(answer.headers["x-request-id"]));
  });
}

test("API spec, Authentication: 3. Only HTTPS is accepted: plain HTTP on a port with TLS gets no answer", async () => {
  const received = world.fake.received.length;
  const headers = messages.headers(customer.secret);
  await assert.rejects(
    fetch(`${world.relayUrl}${messages.path}`, { method: "POST", headers, body: bodyOf({ side: messages }) }),
  );
  assert.equal(world.fake.received.length, received);
});

test("TLS 1.2 and 1.3 are spoken, older versions are not", async () => {
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    const answer = await askForModels(new Agent({ minVersion: version, maxVersion: version }));
    assert.deepEqual([answer.statusCode, (answer.socket as TLSSocket).getProtocol()], [200, version]);
    answer.socket.destroy();
  }
  const old = new Agent({ minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" });
  await assert.rejects(askForModels(old), /version|alert|EPROTO/i);
});

test("a certificate is replaced without a restart: new connections get it, running streams and connections go on", async () => {
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  const earlier = await askForModels(kept);
  const keptPort = earlier.socket.localPort;
  assert.equal(fingerprintServed(earlier), firstFingerprint);
  await textOf(earlier);
  const body = bodyOf({ side: chat, model: "gated-model", isStream: true });
  const stream = await askSecurely({ path: chat.path, headers: chat.headers(customer.secret), body });
  const pieces = stream.setEncoding("utf8")[Symbol.asyncIterator]() as AsyncIterator<string>;
  let text = String((await pieces.next()).value);
  assert.match(text, /before/);

  await makeCertificate(files, "second");
  const secondFingerprint = fingerprintOf(files.certFile);
  const served = async (): Promise<string> => {
    const answer = await askForModels();
    const fingerprint = fingerprintServed(answer);
    await textOf(answer);
    return fingerprint;
  };
  await until("the new certificate is served", async () => (await served()) === secondFingerprint);
  const later = await askForModels(kept);
  assert.deepEqual([later.statusCode, later.socket.localPort], [200, keptPort], "the connection is still the same");
  await textOf(later);

  const lines = world.linesOf("relay").length;
  const good = readFileSync(files.certFile);
  writeFileSync(files.certFile, "no certificate");
  await until("the bad certificate is refused in the log", () =>
    world
      .linesOf("relay")
      .slice(lines)
      .some((line) => line.includes("certificate refused")),
  );
  writeFileSync(files.certFile, good);
  assert.equal(await served(), secondFingerprint);

  goOn.resolve();
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) text += next.value;
  assert.match(text, /after[^]*data: \[DONE\]\n\n$/);
  await world.untilBooked(customer.accountId, String(stream.headers["x-request-id"]));
  kept.destroy();
});
