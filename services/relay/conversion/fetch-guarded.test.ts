import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { test } from "node:test";
import { startDnsServer } from "#shared/testing/dns-server.ts";
import { until } from "#shared/testing/until.ts";
import { FetchRefusedError, isPublicAddress, publicRules, type FetchRules } from "#shared/net/guarded-agent.ts";
import { CallFailure } from "../failures.ts";
import { fetchGuarded } from "./fetch-guarded.ts";
import { serveHttp } from "../testing/raw-client.ts";

const limits = { maxBytes: 1_000, timeoutMs: 5_000 };

/** The server of the test may be reached, and nothing else on its address. */
const rulesFor = (...ports: number[]): FetchRules => ({
  ports: { "http:": ports.map(String), "https:": [""] },
  isAllowedAddress: (address) => address === "127.0.0.1" || isPublicAddress(address),
});

const refused = (reason: RegExp) => (error: unknown) =>
  error instanceof FetchRefusedError && reason.test(error.message);

const nonPublic = [
  ["this network", "0.0.0.0 0.1.2.3"],
  ["private", "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1"],
  ["loopback", "127.0.0.1 127.1.2.3 ::1"],
  ["link-local, with the metadata services", "169.254.169.254 169.254.0.1 fe80::1 febf::1"],
  ["metadata services elsewhere", "100.100.100.200 fd00:ec2::254 168.63.129.16 192.0.0.192"],
  ["shared between carrier's customers", "100.64.0.1 100.127.255.255"],
  ["protocol assignments, documentation, benchmarks", "192.0.0.8 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1"],
  ["multicast, broadcast and reserved", "224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 ff02::1"],
  ["unique local and site local", "fc00::1 fdff::1 fec0::1"],
  ["unspecified", "::"],
  ["IPv4 within IPv6: mapped", "::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1"],
  ["IPv4 within IPv6: compatible", "::127.0.0.1 ::7f00:1"],
  ["IPv4 within IPv6: 6to4, Teredo and their relays", "2002:7f00:1::1 2001:0:7f00:1::1 192.88.99.1"],
  ["IPv4 within IPv6: NAT64", "64:ff9b::7f00:1 64:ff9b:1::7f00:1"],
  ["documentation, discard and segment routing in IPv6", "2001:db8::1 3fff::1 100::1 5f00::1"],
  ["nothing that is an address", "localhost 127.1 0x7f000001 2130706433 256.1.1.1 1.2.3.4.5"],
] as const;

for (const [what, addresses] of nonPublic) {
  test(`not a public address: ${what}`, () => {
    for (const address of addresses.split(" ")) assert.equal(isPublicAddress(address), false, address);
  });
}

test("public addresses are allowed", () => {
  for (const address of ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::1"])
    assert.equal(isPublicAddress(address), true, address);
});

// What each is, the URL, why it is refused.
const urls: [string, string, RegExp][] = [
  ["plain HTTP", "http://example.com/", /^scheme http:/],
  ["a file", "file:///etc/passwd", /^scheme file:/],
  ["data", "data:text/plain,hello", /^scheme data:/],
  ["gopher", "gopher://example.com/", /^scheme gopher:/],
  ["a port that is not the scheme's", "https://example.com:8443/", /^port 8443/],
  ["the port of another service", "https://example.com:22/", /^port 22/],
  ["a user", "https://user@example.com/", /^a user or a password/],
  ["a password", "https://user:word@example.com/", /^a user or a password/],
  ["no URL", "example.com/a.png", /^not a URL/],
  ["an address without end", `https://example.com/${"a".repeat(9_000)}`, /^not a URL/],
  ["loopback", "https://127.0.0.1/", /^address 127\.0\.0\.1/],
  ["loopback in one number", "https://2130706433/", /^address 127\.0\.0\.1/],
  ["loopback in hexadecimal", "https://0x7f.1/", /^address 127\.0\.0\.1/],
  ["loopback in octal", "https://0177.0.0.1/", /^address 127\.0\.0\.1/],
  ["loopback in other digits", "https://①②⑦.0.0.1/", /^address 127\.0\.0\.1/],
  ["loopback in IPv6", "https://[::1]/", /^address ::1/],
  ["mapped loopback", "https://[::ffff:127.0.0.1]/", /^address ::ffff:7f00:1/],
  ["the metadata service", "https://169.254.169.254/latest/meta-data/", /^address 169\.254\.169\.254/],
  ["a name of this machine", "https://localhost/", /^address localhost/],
  ["a name of this machine with a dot", "https://localhost./", /^address localhost/],
];

for (const [what, url, reason] of urls) {
  test(`refused by its URL: ${what}`, () => assert.rejects(fetchGuarded(url, limits), refused(reason)));
}

/** A server on this machine that counts who came. */
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const seen: IncomingMessage[] = [];
  const server = await serveHttp((request, response) => {
    seen.push(request);
    answer(request, response);
  });
  return {
    seen,
    port: server.port,
    url: `http://127.0.0.1:${server.port}`,
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

test("a body comes with its content type, and nothing of the relay goes along", async () => {
  await using server = await serve((_, response) => {
    response.writeHead(200, { "content-type": "image/png" }).end("picture");
  });
  const fetched = await fetchGuarded(`${server.url}/a.png?x=1`, limits, rulesFor(server.port));
  assert.deepEqual([fetched.contentType, fetched.body.toString()], ["image/png", "picture"]);
  const [request] = server.seen;
  assert.equal(request?.url, "/a.png?x=1");
  const names = Object.keys(request?.headers ?? {}).toSorted();
  assert.deepEqual(names, ["accept", "accept-encoding", "connection", "host", "user-agent"]);
});

test("a body that nobody has room for, or waits for, is read no further", { timeout: 10_000 }, async () => {
  await using server = await serve((_, response) => void response.write("x".repeat(400)));
  const rules = rulesFor(server.port);
  const full = new CallFailure({ name: "service_unavailable" });
  const onBytes = (bytes: number): void => {
    assert.equal(bytes, 400);
    throw full;
  };
  const none = fetchGuarded(server.url, { ...limits, timeoutMs: 60_000, onBytes }, rules);
  await assert.rejects(none, full);
  const left = new AbortController();
  const nobody = { ...limits, timeoutMs: 60_000, signal: left.signal, onBytes: () => left.abort() };
  await assert.rejects(fetchGuarded(server.url, nobody, rules), refused(/^the caller has left/));
});

test("a name is checked by what it resolves to, for the connection that is made", async () => {
  await using server = await serve((_, response) => response.end("inside"));
  await using dns = await startDnsServer();
  dns.addresses.set("inside.example", [["127.0.0.1"]]);
  const byName = `http://inside.example:${server.port}/`;
  const { ports } = rulesFor(server.port);
  const dnsServers = [dns.address];
  const refusing = fetchGuarded(byName, limits, { ...publicRules, ports, dnsServers });
  await assert.rejects(refusing, refused(/^address 127\.0\.0\.1 of inside\.example/));
  assert.equal(server.seen.length, 0, "nobody connected");
  const onlyLoopback = (address: string) => address === "127.0.0.1";
  const fetched = await fetchGuarded(byName, limits, { ports, isAllowedAddress: onlyLoopback, dnsServers });
  assert.equal(fetched.body.toString(), "inside");
});

test("a name whose server is silent keeps none of the threads that files and other names wait for", async () => {
  await using dns = await startDnsServer();
  dns.failure = "silence";
  const left = new AbortController();
  const rules = { ...rulesFor(80), dnsServers: [dns.address] };
  const fetching = fetchGuarded("https://silent.example/", { ...limits, signal: left.signal }, rules);
  const ended = assert.rejects(fetching, refused(/^the caller has left/));
  await until("the name is asked for", () => dns.asked.includes("silent.example"));
  assert.ok(!process.getActiveResourcesInfo().includes("GetAddrInfoReqWrap"), "the system's look-up has a thread");
  left.abort();
  await ended;
});

test("a name that DNS does not know, or of which it tells nothing, is a refusal with its cause", async () => {
  await using dns = await startDnsServer();
  const rules = { ...rulesFor(80), dnsServers: [dns.address] };
  for (const failure of [undefined, "servfail"] as const) {
    dns.failure = failure;
    const fetching = fetchGuarded("https://unknown.example/", limits, rules);
    await assert.rejects(fetching, (error) => refused(/^the connection failed/)(error) && error instanceof Error);
  }
});

/** A server that answers `/n` with a redirect to what `targets[n]` says, and all else with a text. */
const serveRedirects = (targets: (port: number) => string[]) => {
  let port = 0;
  return serve(({ url = "", headers }, response) => {
    port = Number(headers.host?.split(":")[1]);
    const location = targets(port)[Number(url.slice(1))];
    if (location === undefined) response.end("arrived");
    else response.writeHead(302, { location }).end("x".repeat(5_000));
  });
};

test("three redirects are followed, relative ones too; the fourth is not", async () => {
  await using server = await serveRedirects((port) => ["/1", `http://127.0.0.1:${port}/2`, "3", "4"]);
  const rules = rulesFor(server.port);
  assert.equal((await fetchGuarded(`${server.url}/1`, limits, rules)).body.toString(), "arrived");
  await assert.rejects(fetchGuarded(`${server.url}/0`, limits, rules), refused(/^more than 3 redirects/));
  assert.equal(server.seen.length, 8);
});

// Where a redirect leads, why it is refused.
const inward: [string, RegExp][] = [
  ["http://169.254.169.254/latest/meta-data/", /^port /],
  ["https://169.254.169.254/latest/meta-data/", /^address 169\.254\.169\.254/],
  ["https://10.0.0.1/", /^address 10\.0\.0\.1/],
  ["https://[::ffff:a00:1]/", /^address ::ffff:a00:1/],
  ["file:///etc/passwd", /^scheme file:/],
  ["https://user:word@127.0.0.1/", /^a user or a password/],
  ["http://127.0.0.1:1/", /^port 1$/],
];

for (const [location, reason] of inward) {
  test(`a redirect is guarded like the URL itself: to ${location}`, async () => {
    await using server = await serveRedirects(() => [location]);
    const rules = { ...rulesFor(server.port), isAllowedAddress: (address: string) => address === "127.0.0.1" };
    await assert.rejects(fetchGuarded(`${server.url}/0`, limits, rules), refused(reason));
  });
}

test("an error status, a redirect without a target and an encoded body are refused", async () => {
  await using server = await serve(({ url }, response) => {
    if (url === "/encoded") response.writeHead(200, { "content-encoding": "gzip" }).end("x");
    else response.writeHead(Number(url?.slice(1))).end();
  });
  const rules = rulesFor(server.port);
  for (const status of [204, 206, 302, 304, 401, 404, 500])
    await assert.rejects(
      fetchGuarded(`${server.url}/${status}`, limits, rules),
      refused(new RegExp(`^status ${status}`)),
    );
  await assert.rejects(fetchGuarded(`${server.url}/encoded`, limits, rules), refused(/^an encoded answer/));
});

test("a body above the limit is refused by its announced length, and by its bytes when none is announced", async () => {
  await using server = await serve(({ url }, response) => {
    if (url === "/announced") response.writeHead(200, { "content-length": 1_001 }).flushHeaders();
    else if (url === "/endless") {
      const pour = (): void => {
        while (response.write("x".repeat(1_000)));
        response.once("drain", pour);
      };
      pour();
    } else response.end("x".repeat(1_000));
  });
  const rules = rulesFor(server.port);
  for (const path of ["announced", "endless"])
    await assert.rejects(fetchGuarded(`${server.url}/${path}`, limits, rules), refused(/^more than 1000 bytes/));
  assert.equal((await fetchGuarded(`${server.url}/just`, limits, rules)).body.length, 1_000);
});

test("one time limit holds for all of it: the head, the body and redirects that never end", async () => {
  await using server = await serve(({ url }, response) => {
    if (url === "/stalls") response.writeHead(200).write("x");
  });
  const short = { ...limits, timeoutMs: 150 };
  for (const path of ["silent", "stalls"])
    await assert.rejects(
      fetchGuarded(`${server.url}/${path}`, short, rulesFor(server.port)),
      refused(/^not within 150 ms/),
    );
});

test("a connection that fails is a refusal with its cause", async () => {
  const rules = rulesFor(1);
  const failing = fetchGuarded("http://127.0.0.1:1/", limits, rules);
  await assert.rejects(
    failing,
    (error) => refused(/^the connection failed/)(error) && (error as Error).cause instanceof Error,
  );
});

test("a name that resolves to another address next time: what was checked is reached", async () => {
  await using server = await serveHttp((_, response) => response.end("reached"));
  await using dns = await startDnsServer();
  dns.addresses.set("rebinding.example", [["127.0.0.1"], ["10.0.0.1"]]);
  const rules = { ...rulesFor(server.port), dnsServers: [dns.address] };
  const { body } = await fetchGuarded(`http://rebinding.example:${server.port}/`, limits, rules);
  assert.deepEqual([String(body), dns.addresses.get("rebinding.example")], ["reached", [["10.0.0.1"]]]);
});

test("a name is refused when one of its addresses is not public, or when it is not any more", async () => {
  await using server = await serveHttp((_, response) => response.end("reached"));
  await using dns = await startDnsServer();
  dns.addresses.set("rebinding.example", [["127.0.0.1", "10.0.0.1"], ["168.63.129.16"]]);
  const rules = { ...rulesFor(server.port), dnsServers: [dns.address] };
  const url = `http://rebinding.example:${server.port}/`;
  for (const address of [/^address 10\.0\.0\.1 of /, /^address 168\.63\.129\.16 of /]) {
    await assert.rejects(fetchGuarded(url, limits, rules), refused(address));
  }
});
