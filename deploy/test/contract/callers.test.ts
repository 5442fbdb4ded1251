import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import * as grpc from "@grpc/grpc-js";
import type { DescService } from "@bufbuild/protobuf";
import { DebugService } from "#proto/debug/v1/debug_pb.ts";
import { identities } from "#shared/grpc/identity.ts";
import { allowCallers, debugCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, grpcService, serveGrpc } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { grpcFilesIn, keepCertificates } from "../../tools/certificates/folder.ts";
import { callersOfServices } from "./callers-table.ts";

const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
const folder = mkdtempSync(join(tmpdir(), "relay-callers-"));
resources.defer(() => rmSync(folder, { recursive: true }));
keepCertificates(folder, Date.now());

const lines: string[] = [];
const log = createLog("test", "warn", { write: (line) => void lines.push(line) });
const credentialsOf = (name: (typeof identities)[number]) =>
  resources.use(openGrpcCredentials(grpcFilesIn(folder, name), log));
const credentials = new Map(identities.map((identity) => [identity, credentialsOf(identity)]));
const reached = { code: grpc.status.UNIMPLEMENTED, details: "reached" };

/** Serves a service all of whose methods say that they were reached. */
async function serve(service: DescService, interceptors: grpc.ServerInterceptor[], own: (typeof identities)[number]) {
  const answer = (call: grpc.ServerDuplexStream<object, object>, reply?: grpc.sendUnaryData<object>): void => {
    if (reply) reply(reached);
    else call.emit("error", reached);
  };
  const answering = (of: DescService) =>
    Object.fromEntries(of.methods.map(({ localName }) => [localName, answer as never]));
  const place = { host: "127.0.0.1", port: 0, drainMs: 100, interceptors, credentials: credentials.get(own) };
  return resources.use(
    await serveGrpc(
      [
        [service, answering(service)],
        [DebugService, answering(DebugService)],
      ],
      place,
    ),
  );
}

/** The status that a call of a method ends with. */
const call = (client: grpc.Client, { path, requestStream }: grpc.MethodDefinition<object, object>): Promise<number> =>
  new Promise((resolve) => {
    const plain = (bytes: Buffer): Buffer => bytes;
    const calling = client.makeBidiStreamRequest(path, plain, plain);
    calling.on("data", () => undefined).on("error", () => undefined);
    calling.on("status", ({ code }: grpc.StatusObject) => resolve(code));
    if (!requestStream) calling.write(Buffer.alloc(0));
    calling.end();
  });

for (const { name, service, callers } of callersOfServices) {
  test(`every method of ${name} is open to whom its table lists, and to nobody else`, async () => {
    const own = credentials.get(name);
    assert.ok(own);
    const { port } = await serve(service, allowCallers(service, callers, { credentials: own, log }), name);
    const found: [string, string[]][] = [];
    const definition = { ...grpcService(service), ...grpcService(DebugService) };
    for (const identity of identities) {
      using client = connectGrpc(`127.0.0.1:${port}`, credentials.get(identity), name);
      for (const [method, described] of Object.entries(definition)) {
        const before = lines.length;
        const code = await call(client, described as grpc.MethodDefinition<object, object>);
        assert.ok([grpc.status.UNIMPLEMENTED, grpc.status.PERMISSION_DENIED].includes(code), `${method}: ${code}`);
        const isOpen = code === grpc.status.UNIMPLEMENTED;
        const told = lines.slice(before).filter((line) => line.includes(`DNS:${identity}.model-relay.internal`));
        assert.equal(told.length, isOpen ? 0 : 1, "a refusal is logged with the caller's names");
        const row = found.find(([known]) => known === method) ?? [method, []];
        if (!found.includes(row)) found.push(row);
        if (isOpen) row[1].push(identity);
      }
    }
    const listed = Object.entries({ ...callers, ...debugCallers }).map(([method, who]) => [
      method,
      identities.filter((one) => who.includes(one)),
    ]);
    assert.deepEqual(found, listed);
  });
}

const methodsOf = (identity: string): string[] =>
  callersOfServices.flatMap(({ name, callers }) =>
    Object.entries(callers).flatMap(([method, who]) =>
      (who as readonly string[]).includes(identity) ? [`${name} ${method}`] : [],
    ),
  );

const submitting = ["video-task submit", "video-task conclude"];

test("stolen: video-task's certificate: reads ledger lines and the applied catalog, and refunds", () => {
  const methods = [
    "auth-quota getAppliedCatalog",
    "billing listLedgerLines",
    "billing refund",
    "billing listVideoCharges",
  ];
  assert.deepEqual(methodsOf("video-task"), methods);
});

test("stolen: auth-quota's certificate: reads balances and progress", () => {
  assert.deepEqual(methodsOf("auth-quota"), ["billing getFunds", "billing getProgress", "billing findLostCharges"]);
});

test("stolen: billing's certificate: tells auth-quota balances, and lists accounts", () => {
  const methods = ["post", "listUnposted", "auditAccounts", "listAccounts"];
  assert.deepEqual(methodsOf("billing").toSorted(), methods.map((method) => `auth-quota ${method}`).toSorted());
});

for (const identity of ["console", "admin"]) {
  test(`stolen: console's or the operator's certificate: ${identity} holds no money and submits no videos`, () => {
    const methods = methodsOf(identity);
    for (const method of ["auth-quota createKey", "billing credit", "billing refund"])
      assert.ok(methods.includes(method));
    for (const method of ["auth-quota session", "auth-quota post", ...submitting]) assert.ok(!methods.includes(method));
  });
}

test("stolen: the relay's certificate: no method that makes money, keys or accounts", () => {
  const ofRelay = methodsOf("relay");
  const ofVideos = ["submit", "findSubmission", "conclude", "getTask", "listTasks", "deleteTask", "locateContent"];
  const ofCatalog = ["keepCatalog", "getKeptCatalog", "getAppliedCatalog"];
  const ofQuota = ["session", ...ofCatalog, "reportRefusals", "findLostCharges"];
  const named = (service: string) => (method: string) => `${service} ${method}`;
  assert.deepEqual(ofRelay, [...ofQuota.map(named("auth-quota")), ...ofVideos.map(named("video-task"))]);
});
