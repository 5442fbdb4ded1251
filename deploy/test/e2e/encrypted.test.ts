import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { systemClock } from "#shared/process/clock.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { certificateNameOf, identities } from "#shared/grpc/identity.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { makeAuthority } from "#shared/testing/authority.ts";
import { until } from "#shared/testing/until.ts";
import { createRelays } from "../../../services/console/relays.ts";
import { readCredentials } from "../../tools/admin/config.ts";
import { openClients } from "../../tools/admin/clients.ts";
import { bodyOf, chat } from "./ask.ts";
import { startEncryptedStores } from "./encrypted-stores.ts";
import { startWorld } from "./world.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-encrypted-"));
// PostgreSQL runs as another user when this is root, and must pass through.
chmodSync(folder, 0o711);
const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
resources.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const at = (name: string): string => join(folder, name);
const [ofStores, first, second] = await Promise.all(
  ["stores", "first", "second"].map((name) => makeAuthority(folder, name)),
);
assert.ok(ofStores && first && second);
const stores = resources.use(await startEncryptedStores(folder, ofStores));

// All processes share the certificates of their uses; the authorities lie in one file.
const caFile = at("ca.pem");
const forGrpc = { certFile: at("grpc.cert"), keyFile: at("grpc.key") };
const forHttp = { certFile: at("http.cert"), keyFile: at("http.key") };
const forNats = { certFile: at("nats.cert"), keyFile: at("nats.key") };
const names = ["localhost", ...identities.map(certificateNameOf)];
const hosts = ["IP:127.0.0.1", ...names.map((name) => `DNS:${name}`)].join(",");
await Promise.all([
  first.issue(forGrpc, "services", hosts),
  first.issue(forHttp, "api"),
  ofStores.issue(forNats, "services"),
]);
copyFileSync(first.caFile, caFile);

const grpc = { GRPC_CERT_FILE: forGrpc.certFile, GRPC_KEY_FILE: forGrpc.keyFile, GRPC_CA_FILE: caFile };
const nats = {
  NATS_CA_FILE: ofStores.caFile,
  NATS_CERT_FILE: forNats.certFile,
  NATS_KEY_FILE: forNats.keyFile,
};
const http = { TLS_CERT_FILE: forHttp.certFile, TLS_KEY_FILE: forHttp.keyFile, ALLOW_PLAIN_HTTP: "never" };
const credentials = resources.use(openGrpcCredentials(grpc, createLog("test", "silent")));
const world = resources.use(
  await startWorld({
    given: stores.urls,
    credentials,
    serviceEnvironment: {
      relay: { ...grpc, ...nats, ...http, NATS_URL: stores.natsUrlOf("relay") },
      "auth-quota": { ...grpc, REDIS_CA_FILE: ofStores.caFile },
      // What one billing had in hand when it stopped comes to the next one soon.
      billing: { ...grpc, ...nats, USAGE_ACK_WAIT_MS: "3000", OUTBOX_AGE_MS: "2000" },
      "video-task": { ...grpc, ...nats, NATS_URL: stores.natsUrlOf("video-task") },
    },
  }),
);
const customer = await world.createCustomer();
const port = Number(new URL(world.relayUrl).port);

/** Calls over HTTPS and reads the answer to its end. */
async function call(isStream: boolean): Promise<{ status: number; text: string; rid: string }> {
  const headers = chat.headers(customer.secret);
  const ca = readFileSync(caFile);
  const asking = request({ host: "localhost", port, path: chat.path, method: "POST", headers, ca, agent: false });
  asking.end(bodyOf({ side: chat, isStream }));
  const [answer] = (await once(asking, "response")) as [IncomingMessage];
  let text = "";
  for await (const piece of answer.setEncoding("utf8")) text += piece as string;
  return { status: answer.statusCode ?? 0, text, rid: String(answer.headers["x-request-id"]) };
}

const loadedCertificates = (): number =>
  (["relay", "auth-quota", "billing", "video-task"] as const).filter((name) =>
    world.linesOf(name).some((line) => line.includes("gRPC certificate reloaded")),
  ).length;

test("with every connection encrypted, a call is answered whole and as a stream, and booked", async () => {
  for (const isStream of [false, true]) {
    const { status, text, rid } = await call(isStream);
    assert.equal(status, 200, text);
    await world.untilBooked(customer.accountId, rid);
  }
});

/** Whether NATS lets a user publish; what it refuses it reports to the connection. */
async function mayPublish(user: Parameters<typeof stores.natsUrlOf>[0], subject: string): Promise<boolean> {
  const { host, username, password } = new URL(stores.natsUrlOf(user));
  const files = { caFile: nats.NATS_CA_FILE, certFile: nats.NATS_CERT_FILE, keyFile: nats.NATS_KEY_FILE };
  const login = { user: username, pass: decodeURIComponent(password), inboxPrefix: `_INBOX_${user}` };
  const connection = await connect({ servers: host, ...login, tls: files });
  const refused = Promise.withResolvers<boolean>();
  void (async () => {
    for await (const status of connection.status()) if (status.type === "error") refused.resolve(false);
  })();
  connection.publish(subject);
  await connection.flush();
  const found = await Promise.race([refused.promise, pause(300, true)]);
  await connection.close();
  return found;
}

test("stolen: the relay's or video-task's NATS login; stolen: billing's NATS login: what it needs and no more", async () => {
  const purge = "$JS.API.STREAM.PURGE.USAGE_V1";
  const pull = "$JS.API.CONSUMER.MSG.NEXT.USAGE_V1.billing";
  const cases = [
    ["relay", "usage.v1.recorded", true],
    ["relay", "usage.v1.other", false],
    ["relay", "ledger.v1.booked", false],
    ["relay", purge, false],
    ["relay", pull, false],
    ["relay", "$JS.ACK.USAGE_V1.billing.1.1.1.1.0", false],
    ["relay", "$JS.API.CONSUMER.CREATE.USAGE_V1.mine", false],
    ["video-task", pull, false],
    ["video-task", "$JS.API.STREAM.DELETE.USAGE_V1", false],
    ["billing", "$JS.API.STREAM.DELETE.USAGE_V1", false],
    ["billing", "$JS.API.STREAM.CREATE.OTHER", false],
  ] as const;
  for (const [user, subject, isAllowed] of cases) {
    assert.equal(await mayPublish(user, subject), isAllowed, `${user} ${subject}`);
  }
});

test("stolen: none, inside the network: relay and video-task answer those who show a certificate, and nobody else", async () => {
  const { relayAddress, videoTaskAddress } = world.stack.addresses;
  const states = (asking?: typeof credentials) =>
    createRelays(relayAddress, { timeoutMs: 20_000, ...(asking && { credentials: asking }) }, systemClock).states();
  assert.equal((await states(credentials))[0]?.state?.isDraining, false);
  assert.match((await states())[0]?.problem ?? "", /No connection established/);
  const absent = { accountId: customer.accountId, taskId: "none" };
  await assert.rejects(world.videoTask.getTask(absent), { code: "not_found" });
  using channel = connectGrpc(videoTaskAddress);
  const stranger = unaryClient(VideoTaskService, channel, 20_000);
  await assert.rejects(stranger.getTask(absent), { code: "unavailable" });
});

test("the operator's tool asks with a certificate, and is refused without one", async () => {
  const { addresses } = world.stack;
  using clients = openClients(addresses, readCredentials(grpc, ""));
  assert.equal((await clients.authQuota.listKeys({ accountId: customer.accountId })).keys.length, 1);
  using stranger = openClients(addresses, readCredentials({ ALLOW_PLAIN_GRPC: "always" }, ""));
  await assert.rejects(stranger.authQuota.listKeys({ accountId: customer.accountId }), { code: "unavailable" });
});

test("billing reads the stream again with its own rights in NATS", async () => {
  using clients = openClients(world.stack.addresses, readCredentials(grpc, ""));
  let batches = 0;
  for await (const _response of clients.streams.replay({ dryRun: true })) batches += 1;
  assert.ok(batches > 0);
});

test("certificates of a new authority replace all of the old under load: no call fails, and all are booked", async () => {
  let isOver = false;
  const answers: Awaited<ReturnType<typeof call>>[] = [];
  const loops = Array.from({ length: 4 }, async (_, index) => {
    while (!isOver) answers.push(await call(index % 2 === 0));
  });
  const both = readFileSync(first.caFile, "utf8") + readFileSync(second.caFile, "utf8");
  writeFileSync(caFile, both);
  await until("all trust both", () => loadedCertificates() === 4);
  const seen = answers.length;
  await Promise.all([second.issue(forGrpc, "services", hosts), second.issue(forHttp, "api")]);
  await until("the relay shows the new one", () =>
    world.linesOf("relay").some((line) => line.includes('"certificate reloaded"')),
  );
  await until("calls go on", () => answers.length > seen + 20);
  // Only the new authority counts now; whoever connects from here on must show its certificate.
  copyFileSync(second.caFile, caFile);
  const stopped = answers.length;
  await world.stack.services.billing.restart();
  await until("calls go on", () => answers.length > stopped + 20);
  isOver = true;
  await Promise.all(loops);
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  await world.untilSettled(customer.accountId, answers.length + 2);
  using clients = openClients(world.stack.addresses, readCredentials(grpc, ""));
  assert.ok((await clients.billing.getBalance({ accountId: customer.accountId })).balanceNanos > 0n);
});
