import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request as send } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { gapMs, releasePath } from "./answers.ts";
import { nowUs, openCaller, type Caller } from "./caller.ts";
import { openMark, type LoadPlan, type LoadReport } from "./load-plan.ts";
import { coreBusyUs, readProcessUse } from "./process-use.ts";
import { renderRequest, streamEnds } from "./requests.ts";
import { createSamples } from "./samples.ts";
import type { Expectation } from "./verdict.ts";

// A process of its own: its argument is a LoadPlan, its output a LoadReport. Each connection calls again as soon as
// its answer is whole, or calls begin at a fixed rate. Calls that run when the window closes are let end, so that
// nothing is left half charged.

const plan = JSON.parse(process.argv[2] ?? "") as LoadPlan;
const { call, destination, callsPerSecond } = plan;
const { kind } = call;
const endTimeoutMs = 30_000;
const keptComplaints = 5;
const openingAtOnce = 100;
const settleMs = 1_500;

const callUs = createSamples();
const firstUs = createSamples();
const chunkUs = createSamples();
const allCalls = { whole: 0, broken: 0 };
const complaints: string[] = [];
let windowCalls = 0;
let windowChunks = 0;
let openStreams = 0;
let isOpen = false;
let isEnding = false;
let isReleased = false;
let connectionsLeft = 0;

const secrets = plan.secretsFile === undefined ? [undefined] : readFileSync(plan.secretsFile, "utf8").split("\n");
const requests = secrets.map((secret) => renderRequest(call, destination, secret));
let nextRequest = 0;
const takeRequest = (): Buffer => requests[nextRequest++ % requests.length] as Buffer;

const expected: Expectation = {
  kind,
  size: plan.answerSize,
  minSize: plan.minSize,
  end: streamEnds[call.client],
};

/** Callers that wait for a call to be due, and calls that wait for a caller. */
const free: Caller[] = [];
const due: number[] = [];

function onReady(caller: Caller): void {
  if (isEnding || isReleased) return caller.end();
  if (callsPerSecond === undefined) return caller.call(takeRequest(), nowUs());
  const sinceUs = due.shift();
  if (sinceUs === undefined) free.push(caller);
  else caller.call(takeRequest(), sinceUs);
}

function open(): void {
  connectionsLeft += 1;
  let hasRecords = false;
  openCaller(destination.port, expected, {
    onReady,
    onWhole: countWhole,
    onBroken: complain,
    onFirst: (elapsedUs) => {
      if (isOpen) firstUs.add(elapsedUs);
    },
    onRecords: (records) => {
      if (isOpen) windowChunks += records;
      if (records > 0 && !hasRecords) openStreams += 1;
      hasRecords ||= records > 0;
    },
    onInstant: (instantUs) => {
      if (isOpen && plan.hasInstants) chunkUs.add(nowUs() - instantUs);
    },
    onClosed: (caller) => {
      connectionsLeft -= 1;
      const at = free.indexOf(caller);
      if (at >= 0) free.splice(at, 1);
      if (!isEnding && kind !== "idle") open();
    },
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

// What is due is looked for once a millisecond, so a call counts from when it was found, or longer when none is free.
function beginAtRate(perSecond: number): void {
  const startedUs = nowUs();
  let begun = 0;
  const timer = setInterval(() => {
    if (isEnding) return clearInterval(timer);
    const now = nowUs();
    for (const wanted = ((now - startedUs) * perSecond) / 1e6; begun < wanted; begun += 1) {
      const caller = free.pop();
      if (caller) caller.call(takeRequest(), now);
      else due.push(now);
    }
  }, 1);
}

async function openAll(): Promise<void> {
  for (let index = 0; index < plan.connections; index += 1) {
    open();
    // Streams that start together would have all their chunks in the same millisecond.
    if (kind === "paced" && index % 10 === 9) await pause((gapMs * 10) / plan.connections);
  }
}

/** Opens streams up to each step and reads the memory that they take; then the upstream ends them all. */
async function openIdle(steps: number[]): Promise<LoadReport["open"]> {
  const seen = [{ streams: 0, residentMb: readProcessUse(plan.pid).residentMb }];
  for (const step of steps) {
    while (openStreams < step && complaints.length === 0) {
      const wanted = Math.min(step, openStreams + openingAtOnce);
      while (connectionsLeft < wanted) open();
      await pause(2);
    }
    await pause(settleMs);
    seen.push({ streams: openStreams, residentMb: readProcessUse(plan.pid).residentMb });
  }
  if (plan.isHeld) {
    const asked = once(process, "SIGUSR2");
    process.stdout.write(`${openMark}\n`);
    await asked;
  }
  isReleased = true;
  await releaseAll();
  return seen;
}

async function releaseAll(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const asked = send({ host: "127.0.0.1", port: plan.upstreamPort, path: releasePath, method: "POST", agent: false });
  asked.on("response", (answer) => answer.resume().on("end", resolve)).on("error", reject);
  asked.end();
  await promise;
}

async function run(): Promise<LoadReport> {
  let seen: LoadReport["open"] = [];
  if (plan.openSteps) seen = await openIdle(plan.openSteps);
  else await openAll();
  if (callsPerSecond !== undefined) beginAtRate(callsPerSecond);
  await pause(plan.warmupMs);
  const before = readProcessUse(plan.pid);
  const busyBeforeUs = coreBusyUs();
  const startedUs = nowUs();
  isOpen = true;
  await pause(plan.windowMs);
  isOpen = false;
  const windowUs = nowUs() - startedUs;
  const after = readProcessUse(plan.pid);
  const busyUs = coreBusyUs() - busyBeforeUs;
  isEnding = true;
  for (const caller of free) caller.end();
  const deadlineUs = nowUs() + endTimeoutMs * 1_000;
  while (connectionsLeft > 0 && nowUs() < deadlineUs) await pause(5);
  for (; connectionsLeft > 0; connectionsLeft -= 1) complain("a call did not end");
  return {
    calls: windowCalls,
    chunks: windowChunks,
    windowUs,
    callUs: callUs.quantiles(),
    firstUs: firstUs.quantiles(),
    chunkUs: chunkUs.quantiles(),
    use: { cpuUs: after.cpuUs - before.cpuUs, residentMb: after.residentMb },
    coreBusyUs: busyUs,
    open: seen,
    errors: allCalls.broken,
    complaints,
    allCalls,
  };
}

const report = await run();
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
