import assert from "node:assert/strict";
import { test } from "node:test";
import { createRestrict } from "./restrict.ts";
import type { UpstreamSource } from "./upstream-schema.ts";

const fileText = `upstreams:
  first: { base_url: "https://api.first.example", credential: { env: FIRST_KEY } }
  gateway:
    base_url: https://gateway.example/our-account
    credential: { file: /run/secrets/gateway }
    proxy: { env: PROXY_URL }
    tls: { ca_file: /run/ca.pem }
  own: { base_url: http://169.254.7.7, credential: { env: OWN_KEY } }
models: {}
`;
const restrict = createRestrict({ fileText, ownVariables: ["DATABASE_URL", "NATS_URL"] });

const first = { base_url: "https://api.first.example", credential: { env: "FIRST_KEY" } };
const gateway = {
  base_url: "https://gateway.example/our-account",
  credential: { file: "/run/secrets/gateway" },
  proxy: { env: "PROXY_URL" },
  tls: { ca_file: "/run/ca.pem" },
};
const fresh = { base_url: "https://new.example", credential: { env: "NEW_KEY" } };

/** Why an upstream may not be; empty: it may. */
function reasonOf(upstream: object): string {
  const [problem] = restrict({ tried: { dialects: ["openai-chat"], headers: {}, ...upstream } as UpstreamSource });
  if (problem) assert.deepEqual(problem.path, ["upstreams", "tried"]);
  return problem?.reason ?? "";
}

test("what the file has may be, and new upstreams with variables of their own", () => {
  for (const allowed of [first, gateway, fresh, { ...first, base_url: "https://API.first.example:443/" }])
    assert.equal(reasonOf(allowed), "");
  assert.equal(reasonOf({ ...fresh, base_url: "http://10.1.2.3:8000" }), "", "a model server of one's own");
  assert.equal(reasonOf({ ...fresh, base_url: "http://169.254.7.7" }), "", "the file says that it is meant");
});

test("a secret that the file names goes where it says, the same way, and nowhere else", () => {
  const moved = [
    { ...first, base_url: "https://evil.example" },
    { ...first, base_url: "http://api.first.example" },
    { ...first, base_url: "https://api.first.example:8443" },
    { ...first, proxy: "http://evil.example:3128" },
    { ...first, tls: { server_name: "evil.example" } },
    { ...first, tls: { ca_file: "/run/ca.pem" } },
    { ...gateway, base_url: "https://gateway.example/another-account" },
    { ...gateway, proxy: undefined },
    { ...gateway, tls: undefined },
    { ...fresh, headers: { "X-Key": { env: "FIRST_KEY" } } },
    { ...fresh, headers: { "X-Key": { file: "/run/secrets/gateway" } } },
    { ...fresh, credential: { env: "PROXY_URL" } },
    { ...fresh, proxy: { env: "FIRST_KEY" } },
  ];
  for (const upstream of moved) assert.match(reasonOf(upstream), /goes elsewhere than in the catalog file/);
});

test("files are those that the file names, and what configures a service is no secret of a provider", () => {
  for (const file of ["/var/run/secrets/kubernetes.io/serviceaccount/token", "/proc/self/environ", "/run/ca.pem/../x"])
    assert.match(reasonOf({ ...fresh, credential: { file } }), /is not named in the catalog file/);
  assert.match(reasonOf({ ...fresh, tls: { key_file: "/var/tls/tls.key" } }), /is not named in the catalog file/);
  for (const env of ["DATABASE_URL", "NATS_URL", "OTEL_EXPORTER_OTLP_HEADERS", "NODE_OPTIONS"])
    assert.match(reasonOf({ ...fresh, credential: { env } }), /configures this service itself/);
});

test("link-local addresses, where metadata services are, are nobody's model server, however they are written", () => {
  const addresses = [
    "http://169.254.169.254",
    "http://169.254.169.254:80/latest",
    "http://0xA9FEA9FE",
    "http://2852039166",
    "http://0251.0376.0251.0376",
    "http://[::ffff:169.254.169.254]",
    "http://[fe80::1]",
    "http://[fd00:ec2::254]",
    "http://metadata.google.internal",
    "http://METADATA.google.internal",
    "http://metadata.google.internal.",
  ];
  for (const address of addresses) assert.match(reasonOf({ ...fresh, base_url: address }), /link-local/, address);
});

test("a file that cannot be read restricts nothing, so nothing is taken beside it", () => {
  assert.throws(() => createRestrict({ fileText: "upstreams: {", ownVariables: [] }), /cannot be read/);
});
