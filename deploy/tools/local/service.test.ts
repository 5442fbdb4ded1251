import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { startService, type ServicePlan } from "./service.ts";

// Ready after it was asked three times; notes its stop; can be told to crash.
const steadyScript = `
  import { createServer } from "node:http";
  let asked = 0;
  createServer((question, answer) => {
    if (question.url === "/asked") return void answer.end(String(asked));
    asked += 1;
    answer.writeHead(asked < 3 ? 503 : 200).end("redis is away");
  }).listen(Number(process.env.OPS_PORT), "127.0.0.1");
  process.on("SIGTERM", () => { console.log("drained"); process.exit(0); });
  console.log("started");
`;

async function planOf(script: string) {
  const folder = await mkdtemp(join(tmpdir(), "relay-service-"));
  const entry = join(folder, "main.mjs");
  await writeFile(entry, script);
  const opsPort = await freePort();
  const lines: string[] = [];
  const plan: ServicePlan = {
    name: "stub",
    url: "127.0.0.1:1",
    opsUrl: `http://127.0.0.1:${opsPort}`,
    entry,
    environment: { PATH: "/usr/bin:/bin", OPS_PORT: String(opsPort) },
    onLine: (line) => lines.push(line),
    stopGraceMs: 10_000,
  };
  return { plan, lines, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

test("a service is ready once /readyz says so, and its disposal lets it drain", async () => {
  await using stub = await planOf(steadyScript);
  {
    await using service = await startService(stub.plan);
    await service.ready();
    const asked = await fetch(`${stub.plan.opsUrl}/asked`, { headers: { connection: "close" } });
    assert.equal(await asked.text(), "3");
  }
  assert.deepEqual(stub.lines, ["started", "drained"]);
});

test("a service that stops while it starts fails with its name, its exit code and its last lines", async () => {
  await using stub = await planOf(`console.error("configuration is not usable"); process.exit(3);`);
  await using service = await startService(stub.plan);
  await assert.rejects(service.ready(), /stub stopped \(exit code 3\)[^]*configuration is not usable/);
});

test("a service killed with SIGKILL can be restarted on the same port and is then ready", async () => {
  await using stub = await planOf(steadyScript);
  await using service = await startService(stub.plan);
  await service.ready();
  const pidBefore = service.pid;
  await service.kill();
  assert.equal(service.isRunning(), false);
  await service.restart();
  assert.notEqual(service.pid, pidBefore);
  assert.equal(service.isRunning(), true);
});

test("a crash is followed by a new start that is announced; a stop is not", async () => {
  await using stub = await planOf(steadyScript);
  const said: string[] = [];
  {
    await using service = await startService(stub.plan);
    await service.ready();
    service.keepAlive((text) => said.push(text));
    const pidBefore = service.pid;
    process.kill(pidBefore, "SIGKILL");
    await until("a new process", () => service.isRunning() && service.pid !== pidBefore);
    await service.ready();
  }
  assert.deepEqual(said, ["stub ended (ended by SIGKILL); starting it again in 250 ms"]);
});

test("a service that crashes at every start is given up after six starts", async () => {
  await using stub = await planOf(`process.exit(9);`);
  const said: string[] = [];
  await using service = await startService({ ...stub.plan, firstPauseMs: 1 });
  service.keepAlive((text) => said.push(text));
  await until("it is given up", () => said.some((text) => text.includes("it is given up")), 30_000);
  assert.equal(said.filter((text) => text.includes("starting it again")).length, 6);
});
