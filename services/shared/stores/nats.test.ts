import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { nkeys } from "@nats-io/transport-node";
import { Registry } from "prom-client";
import type { NatsLogin } from "./link-variables.ts";
import { createLog } from "../process/log.ts";
import { keepConnected } from "./nats.ts";
import { makeAuthority } from "../testing/authority.ts";
import { findStoreBinary } from "../testing/binaries.ts";
import { natsProgram } from "../testing/nats.ts";
import { startStore, type Store } from "../testing/store.ts";
import { until } from "../testing/until.ts";

const folder = mkdtempSync(join(tmpdir(), "nats-tls-"));
const log = createLog("test", "silent");
const [ours, theirs] = await Promise.all([makeAuthority(folder, "ours"), makeAuthority(folder, "theirs")]);
const at = (name: string): string => join(folder, name);
const pair = (name: string) => ({ certFile: at(`${name}.cert`), keyFile: at(`${name}.key`) });
await Promise.all([ours.issue(pair("server"), "server", "DNS:localhost"), ours.issue(pair("client"), "client")]);
copyFileSync(ours.caFile, at("ca"));

/** A NATS that wants a client's certificate and whatever else the settings say. */
async function startNats(name: string, settings: string, shown = "server"): Promise<Store> {
  const { certFile, keyFile } = pair(shown);
  const tls = `tls { cert_file: "${certFile}", key_file: "${keyFile}", ca_file: "${at("ca")}", verify: true }`;
  writeFileSync(at(`${name}.conf`), `${tls}\n${settings}\n`);
  const place = { binary: findStoreBinary("nats") ?? "", folder: at(name), orphanSignal: "SIGKILL" as const };
  const program = natsProgram(place);
  const plan = (port: number) => {
    const planned = program.plan(port);
    return { ...planned, args: [...planned.args, "-c", at(`${name}.conf`)] };
  };
  return startStore({ ...program, plan });
}

const server = await startNats("passwords", 'authorization { user: relay, password: "p@ss:w%rd" }');
after(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const login = (change: Partial<NatsLogin> = {}): NatsLogin => ({
  NATS_CREDS_FILE: "",
  NATS_CA_FILE: at("ca"),
  NATS_CERT_FILE: pair("client").certFile,
  NATS_KEY_FILE: pair("client").keyFile,
  ...change,
});

const urlOf = (user: string, { port }: { port: number } = server): string => `nats://${user}@localhost:${port}`;
const right = `relay:${encodeURIComponent("p@ss:w%rd")}`;

function link(url: string, files: NatsLogin, registry?: Registry) {
  const states: (string | undefined)[] = [];
  const onState = (problem: string | undefined): void => void states.push(problem);
  const kept = keepConnected(url, { name: "test", login: files, registry, onState, log });
  const untilState = (wanted: RegExp | undefined) =>
    until(`state ${String(wanted)}`, () => {
      const last = states.at(-1);
      return states.length > 0 && (wanted ? last !== undefined && wanted.test(last) : last === undefined);
    });
  return { ...kept, states, untilState };
}

test("NATS is reached by TLS with a certificate, user and password, and tells until when the certificate is valid", async () => {
  const registry = new Registry();
  await using nats = link(urlOf(right), login(), registry);
  await nats.untilState(undefined);
  await nats.current()?.flush();
  const told = await registry.getSingleMetricAsString("tls_certificate_not_after_seconds");
  assert.match(told, /\{use="nats"\} \d{10}$/m);
});

test("a wrong password, an unknown authority and a name that is not the server's are refused", async () => {
  await ours.issue(pair("elsewhere"), "elsewhere", "DNS:elsewhere");
  await using elsewhere = await startNats("elsewhere", "", "elsewhere");
  const refused: [string, NatsLogin, RegExp][] = [
    [urlOf("relay:wrong"), login(), /authorization/i],
    [urlOf(right), login({ NATS_CA_FILE: theirs.caFile }), /self-signed|unable to|verify/],
    [urlOf(right, elsewhere), login(), /altnames/],
  ];
  for (const [url, files, words] of refused) {
    await using nats = link(url, files);
    await nats.untilState(words);
    assert.equal(nats.states.includes(undefined), false);
    assert.equal(nats.states.join().includes("p@ss"), false);
  }
});

test("a server without TLS is refused where an authority is given, or where the URL says tls", async () => {
  const place = { binary: findStoreBinary("nats") ?? "", folder: at("plain"), orphanSignal: "SIGKILL" as const };
  await using plain = await startStore(natsProgram(place));
  const none = { NATS_CREDS_FILE: "", NATS_CA_FILE: "", NATS_CERT_FILE: "", NATS_KEY_FILE: "" };
  for (const [url, files] of [
    [plain.url, { ...none, NATS_CA_FILE: at("ca") }],
    [plain.url.replace("nats:", "tls:"), none],
  ] as const) {
    await using nats = link(url, files);
    await nats.untilState(/tls/);
  }
});

test("certificates and authorities are taken over when the connection is made again", async () => {
  await using nats = link(urlOf(right), login());
  await nats.untilState(undefined);
  await Promise.all([theirs.issue(pair("server"), "server", "DNS:localhost"), theirs.issue(pair("client"), "client")]);
  copyFileSync(theirs.caFile, at("ca"));
  const count = nats.states.length;
  await server.restart();
  await until("it was away", () => nats.states.length > count);
  await nats.untilState(undefined);
  await nats.current()?.flush();
});

test("what is no URL is refused without its text", () => {
  const wrong = (): unknown => keepConnected("nats://user:hunter2@:x", { name: "t", onState: () => undefined, log });
  assert.throws(wrong, (error: Error) => /NATS_URL/.test(error.message) && !JSON.stringify(error).includes("hunter2"));
});

type Claims = { iss: string; sub: string; name: string; nats: object };

/** A JWT as NATS reads it, signed by an nkey. */
function sign(pairOfSigner: nkeys.KeyPair, claims: Omit<Claims, "iss">): string {
  const encode = (value: object | Uint8Array): string =>
    Buffer.from(value instanceof Uint8Array ? value : JSON.stringify(value)).toString("base64url");
  const body = { jti: claims.sub, iat: 1_700_000_000, iss: pairOfSigner.getPublicKey(), ...claims };
  const text = `${encode({ typ: "JWT", alg: "ed25519-nkey" })}.${encode(body)}`;
  return `${text}.${encode(pairOfSigner.sign(Buffer.from(text)))}`;
}

function credsOf(account: nkeys.KeyPair): string {
  const user = nkeys.createUser();
  const unlimited = { subs: -1, data: -1, payload: -1 };
  const nats = { type: "user", version: 2, pub: {}, sub: {}, ...unlimited };
  const jwt = sign(account, { sub: user.getPublicKey(), name: "relay", nats });
  const seed = new TextDecoder().decode(user.getSeed());
  const part = (kind: string, text: string): string => `-----BEGIN ${kind}-----\n${text}\n------END ${kind}------\n\n`;
  return part("NATS USER JWT", jwt) + part("USER NKEY SEED", seed);
}

test("a credentials file opens NATS, and another one in its place at the next connecting", async () => {
  const [operator, account, stranger] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount()];
  const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, conn: -1, leaf: -1, wildcards: true };
  const nats = { limits, type: "account", version: 2 };
  const system = nkeys.createAccount();
  const jwtOf = (of: nkeys.KeyPair): string => sign(operator, { sub: of.getPublicKey(), name: "account", nats });
  const operatorNats = { type: "operator", version: 2 };
  const operatorJwt = sign(operator, { sub: operator.getPublicKey(), name: "operator", nats: operatorNats });
  const trust = `operator: "${operatorJwt}"\nsystem_account: ${system.getPublicKey()}\nresolver: MEMORY\n`;
  const known = [system, account].map((one) => `${one.getPublicKey()}: "${jwtOf(one)}"`);
  await using trusting = await startNats("operators", `${trust}resolver_preload { ${known.join("\n")} }`);
  const file = at("user.creds");
  writeFileSync(file, credsOf(stranger));
  const url = `nats://localhost:${trusting.port}`;
  await using kept = link(url, login({ NATS_CREDS_FILE: file }));
  await kept.untilState(/authorization/i);
  writeFileSync(file, credsOf(account));
  await kept.untilState(undefined);
  await kept.current()?.flush();
});
