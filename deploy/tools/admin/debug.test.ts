import assert from "node:assert/strict";
import { mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { debugServices } from "#shared/grpc/debug.ts";
import { serveGrpc, unaryHandlers } from "#shared/grpc/grpc.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import { createLog } from "#shared/process/log.ts";
import { refusing } from "#shared/testing/refusing.ts";
import { until } from "#shared/testing/until.ts";
import { grpcFilesIn, keepCertificates } from "../certificates/folder.ts";
import { runCommand } from "./program.ts";

const owned = new AsyncDisposableStack();
after(() => owned.disposeAsync());
const folder = owned.use(mkdtempDisposableSync(join(tmpdir(), "relay-debug-"))).path;
keepCertificates(folder, Date.now());

const lines: string[] = [];
const log = createLog("test", "warn", { write: (line) => void lines.push(line) });

/** Serves billing as its process does, looks at it included where `isOn`. */
async function serve(isOn: boolean): Promise<number> {
  const credentials = owned.use(openGrpcCredentials(grpcFilesIn(folder, "billing"), log));
  const callers = Object.fromEntries(BillingService.methods.map(({ localName }) => [localName, []]));
  const interceptors = allowCallers(BillingService, callers as never, { credentials, log });
  const handlers = unaryHandlers(
    BillingService,
    refusing(BillingService, () => new Error("not asked")),
    log,
  );
  const place = { host: "127.0.0.1", port: 0, drainMs: 100, credentials, interceptors };
  const debug = debugServices({ isOn, credentials, log });
  return owned.use(await serveGrpc([[BillingService, handlers], ...debug], place)).port;
}

const port = await serve(true);

/** Runs `admin debug` as an identity. */
async function debug(words: string[], { as = "admin", at = port }: { as?: Identity; at?: number } = {}) {
  const told = { answer: "", aside: "" };
  const code = await runCommand(["debug", "--service", "billing", "--address", `127.0.0.1:${at}`, ...words], {
    environment: grpcFilesIn(folder, as),
    addressesFile: join(folder, "none"),
    output: { answer: (text) => void (told.answer += text), aside: (text) => void (told.aside += text) },
  });
  return { code, ...told };
}

test("the operator's certificate looks into a process: profile, heap and event loop", async () => {
  const workHard = (): void => {
    for (const end = performance.now() + 5; performance.now() < end;);
  };
  const busy = setInterval(workHard, 10);
  // A machine that is busy elsewhere may take no sample of it in one second.
  await until("the busy function is in a profile", async () => {
    const { code, answer, aside } = await debug(["cpu", "--seconds", "1"]);
    assert.equal(code, 0, aside);
    const { nodes } = JSON.parse(answer) as { nodes: { callFrame: { functionName: string } }[] };
    return nodes.some(({ callFrame }) => callFrame.functionName === "workHard");
  });
  clearInterval(busy);

  const loop = await debug(["loop", "--seconds", "1"]);
  assert.equal(loop.code, 0, loop.aside);
  assert.ok((JSON.parse(loop.answer) as { delayMs: { p99: number } }).delayMs.p99 > 0, loop.answer);

  const heap = await debug(["heap"]);
  assert.equal(heap.code, 0, heap.aside);
  assert.match(heap.answer.slice(0, 20), /^\{"snapshot":\{/);
  assert.ok(heap.answer.includes('"workHard"') && heap.answer.trimEnd().endsWith("}"));
  assert.equal(lines.filter((line) => line.includes("an operator looks into this process")).length >= 3, true);
});

test("one looks at a time, as long as a limit allows, and whoever leaves makes room", async () => {
  const first = debug(["loop", "--seconds", "2"]);
  await until("the second is refused", async () => (await debug(["cpu", "--seconds", "1"])).code === 1);
  const { code, aside } = await debug(["cpu", "--seconds", "1"]);
  assert.deepEqual([code, aside], [1, "error: another look is under way\n"]);
  assert.equal((await first).code, 0);
  assert.match((await debug(["cpu", "--seconds", "61"])).aside, /seconds must be 1 to 60/);
  assert.match((await debug(["stack"])).aside, /stack is none of cpu, heap, loop/);
});

test("stolen: console's or the operator's certificate: only the operator's looks, and nobody does where it is off", async () => {
  for (const as of ["relay", "auth-quota", "billing", "video-task", "console"] as const) {
    const { code, answer, aside } = await debug(["loop", "--seconds", "1"], { as });
    assert.deepEqual([code, answer, aside], [1, "", "error: this identity may not call this method\n"], as);
  }
  const { code, aside } = await debug(["loop", "--seconds", "1"], { at: await serve(false) });
  assert.equal(code, 1);
  assert.match(aside, /billing at 127\.0\.0\.1:\d+ does not serve this; start it with DEBUG_CALLS=on/);
  const credentials = { isMutual: false };
  assert.deepEqual(debugServices({ isOn: true, credentials, log }), [], "without certificates nobody is the operator");
});
