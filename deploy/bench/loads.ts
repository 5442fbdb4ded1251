import { fileURLToPath } from "node:url";
import { startProcess } from "#shared/testing/child-process.ts";
import { bodyBytes, streamChunks, type LoadKind } from "./answers.ts";
import { openMark, type LoadPlan, type LoadReport } from "./load-plan.ts";
import { setPrecedence } from "./precedence.ts";
import type { ClientName } from "./requests.ts";
import type { Target } from "./targets.ts";
import { framesOf, modelOn, wholeAnswer, type WireName } from "./wire.ts";

const releaseTimeoutMs = 60_000;

/** A load that a target gets in every round. */
export type Load = {
  name: string;
  kind: LoadKind;
  client: ClientName;
  upstream: WireName;
  bytes: number;
  connections: number;
  warmupMs: number;
  windowMs: number;
  callsPerSecond?: number;
  /** Whether the callers go before all others on their core, as on a machine of their own. */
  isFirst?: boolean;
  openSteps?: number[];
  secretsFile?: string;
  /** Whether idle streams stay open until they are released. */
  isHeld?: boolean;
  /** The model to call, where it is not the one of the upstream's dialect. */
  model?: string;
};

const chat = { client: "openai-chat", upstream: "openai-chat", bytes: bodyBytes } as const;
const json = { ...chat, kind: "json", warmupMs: 250, windowMs: 1_000 } as const;
const paced = { ...chat, kind: "paced", warmupMs: 300, windowMs: 1_300 } as const;
const burst = { ...chat, kind: "burst", warmupMs: 250, windowMs: 1_000 } as const;

/** Streams of one dialect with which converted ones are compared. */
export const gapsLoad = "SSE 10 ms gaps, 100 streams";

/** The loads that every target gets. */
export const commonLoads: Load[] = [
  { ...json, name: "1 KB, 64 connections", connections: 64 },
  { ...json, name: "1 KB, 1 connection", connections: 1, warmupMs: 150 },
  { ...json, name: "1 KB, 256 connections", connections: 256 },
  { ...json, name: "32 KB, 64 connections", connections: 64, bytes: 32_768 },
  { ...json, name: "1 MB, 16 connections", connections: 16, bytes: 1_048_576 },
  { ...paced, name: gapsLoad, connections: 100 },
  { ...paced, name: "SSE 10 ms gaps, 1 stream", connections: 1, windowMs: 1_100 },
  { ...burst, name: "SSE back to back, 64 streams", connections: 64 },
  { ...burst, name: "SSE back to back, 256 streams", connections: 256 },
];

const clients: ClientName[] = ["openai-chat", "anthropic-messages", "openai-responses"];
const upstreams: WireName[] = ["openai-chat", "anthropic-messages", "openai-responses", "gemini-generate"];
const shortNames: Record<WireName, string> = {
  "openai-chat": "chat",
  "anthropic-messages": "messages",
  "openai-responses": "responses",
  "gemini-generate": "gemini",
};

/** Name of the load of one cell of the matrix: what callers speak, then what the upstream speaks. */
export function cellName(kind: "json" | "paced", client: ClientName, upstream: WireName): string {
  return `${kind === "json" ? "whole" : "streamed"} ${shortNames[client]} on ${shortNames[upstream]}`;
}

/** Every pair of dialects, whole and streamed. */
export const cellLoads: Load[] = ([json, paced] as const).flatMap((kind) =>
  clients.flatMap((client) =>
    upstreams.map((upstream) => {
      const connections = kind.kind === "json" ? 64 : 100;
      return { ...kind, client, upstream, connections, name: cellName(kind.kind, client, upstream) };
    }),
  ),
);

/** Converted streams that are held to bars. */
export const comparedCells: Load[] = [
  cellName("paced", "openai-chat", "anthropic-messages"),
  cellName("paced", "anthropic-messages", "openai-chat"),
].flatMap((wanted) => cellLoads.filter(({ name }) => name === wanted));

/** The load by which latency and whole-system cost are measured. */
export const smallLoad: Load = { ...json, name: "1 KB, 64 connections", connections: 64 };

/** Streams that say one chunk and then wait. */
export function idleLoad(name: string, openSteps: number[]): Load {
  const connections = openSteps.at(-1) ?? 0;
  return { ...chat, kind: "idle", name, connections, openSteps, warmupMs: 0, windowMs: 0 };
}

/** What a whole answer has when nothing on the way changes it; undefined where a dialect is converted. */
function sizeOf({ kind, client, upstream }: Load): number | undefined {
  if (client !== upstream) return undefined;
  if (kind === "json") return Buffer.byteLength(wholeAnswer(upstream));
  return framesOf(upstream, kind === "idle" ? 1 : streamChunks);
}

/** A load under way. */
export type LoadOptions = {
  /** What the loader saw, when it is over. Rejects when the loader fails; errors of calls are counted. */
  report: Promise<LoadReport>;
  /** Resolves when all streams of a held load are open; rejects when the loader ends before. */
  opened: Promise<void>;
  /** Lets the streams of a held load end. */
  release: () => Promise<void>;
};

/** Puts a load on a target and returns what the loader saw. Throws when the loader fails. */
export async function runLoad(load: Load, target: Target, upstreamPort: number): Promise<LoadReport> {
  const loading = await startLoad(load, target, upstreamPort);
  return loading.report;
}

/** Begins to put a load on a target. */
export async function startLoad(load: Load, target: Target, upstreamPort: number): Promise<LoadOptions> {
  let report = "";
  const opened = Promise.withResolvers<void>();
  const loader = await startProcess({
    command: process.execPath,
    args: [fileURLToPath(import.meta.resolve("./loader.ts")), JSON.stringify(planOf(load, target, upstreamPort))],
    orphanSignal: "SIGTERM",
    onLine: (line) => {
      if (line === openMark) opened.resolve();
      else report = line;
    },
  });
  if (load.isFirst) setPrecedence([loader.pid], "first");
  const readReport = async (): Promise<LoadReport> => {
    const outcome = await loader.ended;
    if (!report.startsWith('{"calls":')) throw new Error(`loader ${outcome}:\n${loader.lastLines().join("\n")}`);
    return JSON.parse(report, (_, value: unknown) => value ?? Number.NaN) as LoadReport;
  };
  const reading = readReport();
  reading.then(() => opened.reject(new Error("the loader ended before its streams were open")), opened.reject);
  opened.promise.catch(() => undefined);
  return { report: reading, opened: opened.promise, release: () => loader.end("SIGUSR2", releaseTimeoutMs) };
}

function planOf(load: Load, target: Target, upstreamPort: number): LoadPlan {
  const { kind, client, upstream, bytes, connections, callsPerSecond, openSteps, secretsFile } = load;
  const { warmupMs, windowMs, isHeld = false } = load;
  const size = target.isVerbatim ? sizeOf(load) : undefined;
  return {
    call: { kind, client, model: load.model ?? modelOn(upstream), bytes },
    destination: { port: target.port, headers: target.headers },
    minSize: kind === "paced" || kind === "burst" ? streamChunks : 1,
    hasInstants: client !== "openai-responses",
    connections,
    warmupMs,
    windowMs,
    isHeld,
    upstreamPort,
    pid: target.pid,
    ...(size !== undefined && { answerSize: size }),
    ...(callsPerSecond !== undefined && { callsPerSecond }),
    ...(openSteps && { openSteps }),
    ...(secretsFile !== undefined && { secretsFile }),
  };
}
