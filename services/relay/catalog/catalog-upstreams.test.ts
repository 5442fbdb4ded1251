import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { makeCertificate } from "#shared/testing/certificate.ts";
import { CatalogError } from "#shared/catalog/document.ts";
import { parseCatalog, upstreamsOf } from "./catalog.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-upstreams-"));
after(() => rmSync(folder, { recursive: true }));
const fileOf = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

const environment = {
  PROVIDER_KEY: "sk-value-of-the-key",
  ORGANISATION: "org-of-ours",
  TWO_LINES: "secret-one\nsecret-two",
  PROXY: "http://someone:p%40ssword@proxy.internal:3128",
};

/** A catalog of one upstream with these settings beside those that it must have. */
function textOf(settings: object, route: object = {}): string {
  const common = { base_url: "https://api.example", dialects: ["openai-chat"], credential: { env: "PROVIDER_KEY" } };
  const model = {
    owned_by: "x",
    upstreams: [{ name: "provider", ...route }],
    context_tokens: 1_000,
    max_output_tokens: 100,
    price: { version: "1", input_tokens: "1", output_tokens: "2" },
  };
  return JSON.stringify({ upstreams: { provider: { ...common, ...settings } }, models: { m: model } });
}

function read(settings: object = {}, variables: NodeJS.ProcessEnv = environment): Upstream {
  const [upstream] = upstreamsOf(parseCatalog(textOf(settings), "catalog.yaml", variables));
  assert.ok(upstream);
  return upstream;
}

/** Why the settings are refused; no value of a secret may be in it. */
function refusalOf(settings: object, route: object = {}): string {
  try {
    parseCatalog(textOf(settings, route), "catalog.yaml", environment);
  } catch (error) {
    assert.ok(error instanceof CatalogError, `a CatalogError, not ${String(error)}`);
    assert.doesNotMatch(error.message, /sk-value|secret-|p%40ssword|p@ssword|BEGIN/);
    return error.message;
  }
  return assert.fail("the settings were taken");
}

test("limits have their defaults", () => {
  const upstream = read();
  assert.deepEqual(
    [upstream.connectTimeoutMs, upstream.firstByteTimeoutMs, upstream.idleTimeoutMs, upstream.totalTimeoutMs],
    [5_000, 300_000, 60_000, 3_600_000],
  );
  assert.deepEqual([upstream.maxConcurrent, upstream.openAfterFailures, upstream.coolsDown], [1_280, 10, true]);
  assert.deepEqual([upstream.headers, upstream.proxy, upstream.tls], [[], undefined, undefined]);
});

test("limits are read", () => {
  const upstream = read({ total_timeout_ms: 7, max_concurrent: 2, open_after_failures: 0, cool_down: false });
  assert.deepEqual(
    [upstream.totalTimeoutMs, upstream.maxConcurrent, upstream.openAfterFailures, upstream.coolsDown],
    [7, 2, 0, false],
  );
});

test("a route has priority and weight 0 unless the catalog says otherwise", () => {
  const routeOf = (route: object) =>
    parseCatalog(textOf({}, route), "catalog.yaml", environment).models.get("m")?.routes[0];
  assert.deepEqual([routeOf({})?.priority, routeOf({})?.weight], [0, 0]);
  const route = routeOf({ priority: 3, weight: 70 });
  assert.deepEqual([route?.priority, route?.weight], [3, 70]);
});

test("headers come literally, from a variable or from a file", () => {
  const file = fileOf("project", "  proj-from-a-file\n");
  const headers = { "OpenAI-Organization": { env: "ORGANISATION" }, "OpenAI-Project": { file }, "X-Team": "relay" };
  const wanted = ["OpenAI-Organization", "org-of-ours", "OpenAI-Project", "proj-from-a-file", "X-Team", "relay"];
  assert.deepEqual(read({ headers }).headers, wanted);
});

test("a proxy with its credentials comes from a variable; one without may stand in the catalog", () => {
  assert.equal(read({ proxy: { env: "PROXY" } }).proxy?.href, "http://someone:p%40ssword@proxy.internal:3128/");
  assert.equal(read({ proxy: "https://proxy.internal" }).proxy?.href, "https://proxy.internal/");
});

// What is wrong, the settings, the refusal.
const refusals: [string, object, RegExp][] = [
  ["a time of 0", { total_timeout_ms: 0 }, /total_timeout_ms must be >= 1$/m],
  ["a time of more than a day", { total_timeout_ms: 86_400_001 }, /total_timeout_ms must be <= 86400000$/m],
  ["room for no call", { max_concurrent: 0 }, /max_concurrent must be >= 1$/m],
  ["a header without its variable", { headers: { "X-A": { env: "NOT_SET" } } }, /the variable NOT_SET is not set$/m],
  ["a header name that is none", { headers: { "X A": "b" } }, /Header name must be a valid HTTP token/],
  ["a header value of two lines", { headers: { "X-A": { env: "TWO_LINES" } } }, /Invalid character in header content/],
  ["a header twice", { headers: { "X-A": "b", "x-a": "c" } }, /the header x-a stands twice$/m],
  ["a credential of two lines", { credential: { env: "TWO_LINES" } }, /Invalid character in header content/],
  [
    "a credential in the address",
    { base_url: "https://me:secret-word@api.example" },
    /base_url must be without a user/,
  ],
  ["a proxy that is no URL", { proxy: "proxy.internal:3128" }, /proxy must be an http or https URL$/m],
  ["a proxy of another sort", { proxy: "socks5://proxy.internal" }, /proxy must be an http or https URL$/m],
  ["a proxy with a path", { proxy: "http://proxy.internal/x" }, /proxy must be a URL without a path$/m],
  [
    "a proxy's password in the catalog",
    { proxy: "http://someone:secret-word@proxy.internal" },
    /the credentials of a proxy belong in a variable or a file$/m,
  ],
  [
    "tls to a plain address",
    { base_url: "http://api.example", tls: { server_name: "a" } },
    /tls needs a base_url with https$/m,
  ],
  ["a certificate without its key", { tls: { cert_file: "/nowhere" } }, /tls needs cert_file and key_file together$/m],
  ["an authority that is not there", { tls: { ca_file: "/nowhere/ca" } }, /ENOENT: .*'\/nowhere\/ca'$/m],
  ["an authority that is none", { tls: { ca_file: fileOf("ca", "secret-text") } }, /cannot be read as PEM/],
  ["verification switched off", { tls: { reject_unauthorized: false } }, /reject_unauthorized is not a known field$/m],
];

for (const [what, settings, refusal] of refusals) {
  test(`refused with file, line and reason: ${what}`, () => {
    assert.match(refusalOf(settings), refusal);
    assert.match(refusalOf(settings), /^catalog\.yaml:\d+: /m);
  });
}

const reserved = `Authorization x-api-key Host Content-Length Content-Type Content-Encoding Transfer-Encoding Connection
  Keep-Alive TE Trailer Upgrade Expect Accept Accept-Encoding User-Agent X-Request-Id anthropic-version anthropic-beta
  Proxy-Authorization Proxy-Connection`.split(/\s+/);

for (const name of reserved) {
  test(`a header may not override what the relay, the dialect or the connection sets: ${name}`, () => {
    assert.match(
      refusalOf({ headers: { [name]: "x" } }),
      new RegExp(`the header ${name} is the relay's own to set$`, "m"),
    );
  });
}

for (const [name, route, refusal] of [
  ["a negative priority", { priority: -1 }, /priority must be >= 0$/m],
  ["a weight that is no whole number", { weight: 0.5 }, /weight must be integer$/m],
  ["a weight beyond all", { weight: 1_000_001 }, /weight must be <= 1000000$/m],
] as const) {
  test(`refused with file, line and reason: ${name}`, () => assert.match(refusalOf({}, route), refusal));
}

test("the id of an upstream is the same for the same settings, and another for any other, secrets included", () => {
  const { id } = read();
  assert.equal(read({}).id, id);
  const file = fileOf("rotated", "first-value");
  const before = read({ credential: { file } }).id;
  writeFileSync(file, "second-value");
  const others = [
    read({ max_concurrent: 5 }).id,
    read({ headers: { "X-A": "b" } }).id,
    read({ headers: { "X-A": "c" } }).id,
    read({ proxy: { env: "PROXY" } }).id,
    read({ proxy: { env: "PROXY" } }, { ...environment, PROXY: "http://proxy.internal:3128" }).id,
    read({}, { ...environment, PROVIDER_KEY: "sk-another" }).id,
    before,
    read({ credential: { file } }).id,
  ];
  assert.equal(new Set([id, ...others]).size, others.length + 1);
  assert.doesNotMatch(id, /sk-/);
});

test("certificates are read and checked when the catalog is", async () => {
  const filesOf = (name: string) => ({ certFile: join(folder, `${name}.crt`), keyFile: join(folder, `${name}.key`) });
  const [own, other] = [filesOf("own"), filesOf("other")];
  await makeCertificate(own, "own");
  await makeCertificate(other, "other");
  const tls = { ca_file: other.certFile, cert_file: own.certFile, key_file: own.keyFile, server_name: "api.internal" };
  const [ca, cert, key] = [other.certFile, own.certFile, own.keyFile].map((file) => readFileSync(file, "utf8"));
  assert.deepEqual(read({ tls }).tls, { ca, cert, key, servername: "api.internal" });
  assert.deepEqual(read({ tls: { server_name: "a" } }).tls, { servername: "a" });
  assert.match(refusalOf({ tls: { ...tls, key_file: other.keyFile } }), /do not belong together$/m);
  assert.match(refusalOf({ tls: { ...tls, key_file: own.certFile } }), /cannot be read as PEM/);
});
