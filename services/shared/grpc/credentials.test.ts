import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { Registry } from "prom-client";
import { openGrpcCredentials } from "./credentials.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { makeAuthority, type Authority } from "../testing/authority.ts";
import { refusing } from "../testing/refusing.ts";
import { until } from "../testing/until.ts";

const folder = mkdtempSync(join(tmpdir(), "grpc-tls-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const [first, second] = await Promise.all([makeAuthority(folder, "first"), makeAuthority(folder, "second")]);

/** Files of one process, as its variables name them. */
async function filesOf(name: string, authority: Authority, hosts?: string) {
  const at = (kind: string): string => join(folder, `${name}.${kind}.pem`);
  const files = { certFile: at("cert"), keyFile: at("key"), caFile: at("ca") };
  await authority.issue(files, name, hosts);
  copyFileSync(authority.caFile, files.caFile);
  return files;
}

type Files = Awaited<ReturnType<typeof filesOf>>;
const lines: string[] = [];
const log = createLog("test", "info", { write: (line) => void lines.push(line) });
const open = ({ certFile, keyFile, caFile }: Files, registry?: Registry) =>
  openGrpcCredentials({ GRPC_CERT_FILE: certFile, GRPC_KEY_FILE: keyFile, GRPC_CA_FILE: caFile }, log, registry);

const handlers = unaryHandlers(
  BillingService,
  { ...refusing(BillingService, () => new Error("not asked")), getBalance: async () => ({ balanceNanos: 7n }) },
  log,
);
const listen = { host: "127.0.0.1", port: 0, drainMs: 100 };

/** Makes one call over a connection of its own. */
async function callOnce(port: number, files: Files | undefined, host = "127.0.0.1"): Promise<bigint> {
  using credentials = files && open(files);
  using channel = connectGrpc(`${host}:${port}`, credentials);
  return (await unaryClient(BillingService, channel, 5_000).getBalance({ accountId: "a" })).balanceNanos;
}

test("both ends must show a certificate of the authorities, and the server one for its name", async () => {
  const [server, client] = [await filesOf("server", first, "DNS:localhost"), await filesOf("client", first)];
  using credentials = open(server);
  await using listener = await serveGrpc([[BillingService, handlers]], { ...listen, credentials });
  assert.equal(await callOnce(listener.port, client, "localhost"), 7n);

  const stranger = await filesOf("stranger", second);
  copyFileSync(first.caFile, stranger.caFile);
  await assert.rejects(callOnce(listener.port, stranger, "localhost"), { code: "unavailable" }, "another authority's");
  await assert.rejects(callOnce(listener.port, undefined), { code: "unavailable" }, "a plain connection");
  const distrustful = { ...client, caFile: second.caFile };
  await assert.rejects(callOnce(listener.port, distrustful, "localhost"), /self-signed|verify|unable to/);
  await assert.rejects(callOnce(listener.port, client, "127.0.0.1"), /does not match certificate/);
});

test("a client without a certificate is refused, though it knows the authority", async () => {
  const server = await filesOf("strict", first);
  using credentials = open(server);
  await using listener = await serveGrpc([[BillingService, handlers]], { ...listen, credentials });
  const { credentials: made } = await import("@grpc/grpc-js");
  using channel = connectGrpc(`127.0.0.1:${listener.port}`, { client: made.createSsl(readFileSync(first.caFile)) });
  const call = unaryClient(BillingService, channel, 5_000).getBalance({ accountId: "a" });
  await assert.rejects(call, { code: "unavailable" });
});

test("a service must be the one that is called, wherever it runs", async () => {
  const [server, client] = [
    await filesOf("named", first, "DNS:relay.model-relay.internal"),
    await filesOf("asker", first),
  ];
  using credentials = open(server);
  await using listener = await serveGrpc([[BillingService, handlers]], { ...listen, credentials });
  using asking = open(client);
  using channel = connectGrpc(`127.0.0.1:${listener.port}`, asking, "relay");
  const billing = unaryClient(BillingService, channel, 5_000);
  assert.equal((await billing.getBalance({ accountId: "a" })).balanceNanos, 7n);
  using other = connectGrpc(`127.0.0.1:${listener.port}`, asking, "billing");
  await assert.rejects(unaryClient(BillingService, other, 5_000).getBalance({ accountId: "a" }), /does not match/);
});

test("certificates of a new authority take over without a restart and without a failed call, in the usual two steps", async () => {
  const [server, client] = [await filesOf("old-server", first), await filesOf("old-client", first)];
  const registry = new Registry();
  using served = open(server, registry);
  using asking = open(client);
  await using listener = await serveGrpc([[BillingService, handlers]], { ...listen, credentials: served });
  using channel = connectGrpc(`127.0.0.1:${listener.port}`, asking);
  const billing = unaryClient(BillingService, channel, 5_000);
  const ask = async (): Promise<bigint> => (await billing.getBalance({ accountId: "a" })).balanceNanos;
  assert.equal(await ask(), 7n);
  const expiry = await registry.getSingleMetricAsString("tls_certificate_not_after_seconds");
  assert.match(expiry, /\{use="grpc"\} \d{10}$/m);

  const reloads = (): number => lines.filter((line) => line.includes("certificate reloaded")).length;
  const untilReloaded = (before: number) => until("both have reloaded", () => reloads() === before + 2);
  let before = reloads();
  const both = readFileSync(first.caFile, "utf8") + readFileSync(second.caFile, "utf8");
  for (const { caFile } of [server, client]) writeFileSync(caFile, both);
  await untilReloaded(before);
  assert.equal(await ask(), 7n);

  before = reloads();
  await Promise.all([second.issue(server, "new-server"), second.issue(client, "new-client")]);
  await until("both have taken over", () => reloads() >= before + 2);
  assert.equal(await ask(), 7n, "the open connection goes on");
  assert.equal(await callOnce(listener.port, client), 7n);

  before = reloads();
  for (const { caFile } of [server, client]) copyFileSync(second.caFile, caFile);
  await untilReloaded(before);
  assert.equal(await callOnce(listener.port, client), 7n);
  const former = await filesOf("former", first);
  copyFileSync(second.caFile, former.caFile);
  await assert.rejects(callOnce(listener.port, former), { code: "unavailable" }, "the first authority is no more");
});

test("files that cannot be used stop the start; later they are refused, and what was in force stays", async () => {
  const [server, client] = [await filesOf("kept", first), await filesOf("keeping", first)];
  assert.throws(() => open({ ...server, caFile: join(folder, "none") }), /ENOENT/);
  assert.throws(() => open({ ...server, keyFile: client.keyFile }), /private key/);
  using credentials = open(server);
  await using listener = await serveGrpc([[BillingService, handlers]], { ...listen, credentials });
  const refusals = (): number => lines.filter((line) => line.includes("gRPC certificate refused")).length;
  const earlier = refusals();
  writeFileSync(server.caFile, "no certificate");
  await until("the bad authority is refused", () => refusals() > earlier);
  assert.equal(await callOnce(listener.port, client), 7n);
});
