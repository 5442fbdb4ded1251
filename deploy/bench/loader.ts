import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { createAnswerReader } from "./answer-reader.ts";
import { gapMs, requestBody } from "./answers.ts";
import type { LoadPlan, LoadReport } from "./load-plan.ts";
import { readProcessUse } from "./process-use.ts";
import { createSamples } from "./samples.ts";
import { createChecker } from "./verdict.ts";

// A process of its own: its argument is a LoadPlan, its output a LoadReport. Each connection calls again as soon as
// its answer is whole. Calls that run when the window closes are let end, so that nothing is left half charged.

const plan = JSON.parse(process.argv[2] ?? "") as LoadPlan;
const callTimeoutMs = 15_000;
const reconnectMs = 50;
const keptComplaints = 5;

const callUs = createSamples();
const chunkUs = createSamples();
const allCalls = { whole: 0, broken: 0 };
const complaints: string[] = [];
let windowCalls = 0;
let windowChunks = 0;
let isOpen = false;
let isEnding = false;
let connectionsLeft = 0;

const body = requestBody(plan.kind);
const request = Buffer.from(
  `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${plan.port}\r\nauthorization: Bearer ${plan.secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
);

const nowUs = (): number => Number(process.hrtime.bigint() / 1_000n);

function openConnection(): void {
  connectionsLeft += 1;
  let startedUs = 0;
  let isCalling = false;
  const socket: Socket = connect({ port: plan.port, host: "127.0.0.1", noDelay: true });
  const checker = createChecker(plan.kind, (instantUs) => {
    if (isOpen) chunkUs.add(nowUs() - instantUs);
  });
  const call = (): void => {
    if (isEnding) return void socket.end();
    isCalling = true;
    startedUs = nowUs();
    socket.write(request);
  };
  const read = createAnswerReader({
    onHead: checker.begin,
    onPayload: (part) => {
      const records = checker.look(part);
      if (isOpen) windowChunks += records;
    },
    onEnd: () => {
      isCalling = false;
      const complaint = checker.complaint();
      if (complaint) complain(complaint);
      else countWhole(nowUs() - startedUs);
      // A refusal would otherwise be asked for as fast as this machine can.
      if (complaint) setTimeout(call, reconnectMs);
      else call();
    },
  });
  socket.on("connect", call);
  socket.on("data", (bytes) => {
    try {
      read(bytes);
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
  socket.setTimeout(callTimeoutMs, () => socket.destroy(new Error(`silent for ${callTimeoutMs} ms`)));
  socket.on("error", (error) => complain(error.message));
  socket.on("close", (hadError) => {
    if (isCalling && !hadError) complain("the connection closed within an answer");
    connectionsLeft -= 1;
    if (!isEnding) setTimeout(openConnection, reconnectMs);
  });
}

function countWhole(elapsedUs: number): void {
  allCalls.whole += 1;
  if (!isOpen) return;
  windowCalls += 1;
  callUs.add(elapsedUs);
}

function complain(complaint: string): void {
  allCalls.broken += 1;
  if (complaints.length < keptComplaints) complaints.push(complaint);
}

function readCompanionsUs(): number {
  return plan.companionPids.reduce((sum, pid) => sum + readProcessUse(pid).cpuUs, 0);
}

async function run(): Promise<LoadReport> {
  for (let index = 0; index < plan.connections; index += 1) {
    openConnection();
    // Streams that start together would have all their chunks in the same millisecond.
    if (plan.kind === "paced" && index % 10 === 9) await pause((gapMs * 10) / plan.connections);
  }
  await pause(plan.warmupMs);
  const before = readProcessUse(plan.pid);
  const companionsBeforeUs = readCompanionsUs();
  const startedUs = nowUs();
  isOpen = true;
  await pause(plan.windowMs);
  isOpen = false;
  const windowUs = nowUs() - startedUs;
  const after = readProcessUse(plan.pid);
  const companionsCpuUs = readCompanionsUs() - companionsBeforeUs;
  isEnding = true;
  const deadlineUs = nowUs() + callTimeoutMs * 1_000;
  while (connectionsLeft > 0 && nowUs() < deadlineUs) await pause(5);
  return {
    calls: windowCalls,
    chunks: windowChunks,
    windowUs,
    callUs: callUs.quantiles(),
    chunkUs: chunkUs.quantiles(),
    use: { cpuUs: after.cpuUs - before.cpuUs, residentMb: after.residentMb },
    companionsCpuUs,
    errors: allCalls.broken,
    complaints,
    allCalls,
  };
}

const report = await run();
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
