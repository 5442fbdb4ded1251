import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startAnnounced } from "../announced.ts";
import { claimCores } from "../cores.ts";
import { maxStreams, openFilesLimit, raiseOpenFiles } from "../open-files.ts";
import { readProcessUse } from "../process-use.ts";
import { startRelay, type RelayTarget } from "../relay-target.ts";
import { spreadOf } from "../statistics.ts";
import { formatFigure, formatRatio, formatSpread, renderTable } from "../table.ts";
import { callByHttp, callBySocket, type Caller, type CallerPlan } from "./callers.ts";

/** How a turn gets to the relay and from there to the provider. */
const ways = ["SSE", "socket, provider by HTTP", "socket, provider by socket"] as const;
type Way = (typeof ways)[number];

const models: Record<Way, string> = {
  SSE: "by-http",
  "socket, provider by HTTP": "by-http",
  "socket, provider by socket": "by-socket",
};

const callers = 16;
const turns = { few: 2_000, many: 400 };
const words = { few: 4, many: 204 };
const warmUpTurns = 1_000;
const manySockets = 10_000;
// So many at once do not fill the relay's backlog.
const openedAtOnce = 64;
const settleMs = 3_000;

type Cost = { turnUs: number; eventUs: number };
type Memory = { idleKb: number; turnKb: number };

const start = async (way: Way, plan: CallerPlan): Promise<Caller> =>
  way === "SSE" ? callByHttp(plan) : callBySocket(plan);

const upstreamFile = fileURLToPath(import.meta.resolve("./upstream.ts"));

function catalog(origin: string): string {
  const upstream = (more: string): string =>
    `{ base_url: "${origin}", dialects: [openai-responses], credential: { env: DEMO_API_KEY }, ${more}` +
    "max_concurrent: 100000 }";
  const model = (at: string): string =>
    `{ owned_by: bench, upstreams: [{ name: ${at} }], context_tokens: 200000, max_output_tokens: 4096, ` +
    'price: { version: bench-1, input_tokens: "1.00", output_tokens: "2.00" } }';
  return (
    `upstreams:\n  http: ${upstream("")}\n  socket: ${upstream("responses_websocket: true, ")}\n` +
    `models:\n  by-http: ${model("http")}\n  by-socket: ${model("socket")}\n`
  );
}

/** Microseconds of the relay's CPU for each of so many turns. */
async function costOf(relay: RelayTarget, all: readonly Caller[], count: number, wordsOfTurn: number): Promise<number> {
  const before = readProcessUse(relay.pid).cpuUs;
  let left = count;
  const run = async ({ ask }: Caller): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await ask(wordsOfTurn);
    }
  };
  await Promise.all(all.map(run));
  return (readProcessUse(relay.pid).cpuUs - before) / count;
}

async function measureCost(relay: RelayTarget, way: Way): Promise<Cost> {
  const plan = { port: relay.port, headers: relay.headers, model: models[way] };
  const all = await Promise.all(Array.from({ length: callers }, () => start(way, plan)));
  try {
    await costOf(relay, all, warmUpTurns, words.few);
    const fewUs = await costOf(relay, all, turns.few, words.few);
    const manyUs = await costOf(relay, all, turns.many, words.many);
    const eventUs = (manyUs - fewUs) / (words.many - words.few);
    return { eventUs, turnUs: fewUs - words.few * eventUs };
  } finally {
    for (const caller of all) caller.end();
  }
}

/** Memory of each of many sockets: that say nothing, and that have had a turn. */
async function measureMemory(relay: RelayTarget, way: Way, count: number): Promise<Memory> {
  await relay.restart();
  const plan = { port: relay.port, headers: relay.headers, model: models[way] };
  const first = await callBySocket(plan);
  await first.ask(words.few);
  first.end();
  await pause(settleMs);
  const residentMb = (): number => readProcessUse(relay.pid).residentMb;
  const noneMb = residentMb();
  const all: Caller[] = [];
  while (all.length < count) {
    const more = Math.min(openedAtOnce, count - all.length);
    all.push(...(await Promise.all(Array.from({ length: more }, () => callBySocket(plan)))));
  }
  await pause(settleMs);
  const idleMb = residentMb();
  for (let at = 0; at < count; at += openedAtOnce) {
    await Promise.all(all.slice(at, at + openedAtOnce).map(({ ask }) => ask(words.few)));
  }
  await pause(settleMs);
  const turnMb = residentMb();
  for (const caller of all) caller.end();
  const kbOfEach = (mb: number): number => ((mb - noneMb) * 1_024) / count;
  return { idleKb: kbOfEach(idleMb), turnKb: kbOfEach(turnMb) };
}

/** What turns on sockets cost beside those over HTTP, and what sockets take that are open. */
export async function measureSockets(rounds: number, say: (text: string) => void) {
  raiseOpenFiles();
  const cores = claimCores();
  await using upstream = await startAnnounced({ command: process.execPath, args: [upstreamFile] });
  const most = String(2 * manySockets);
  const limits = { MAX_SOCKETS: most, MAX_SOCKETS_PER_ACCOUNT: most, MAX_CONNECTIONS_PER_ADDRESS: most };
  const relayPlan = { catalog: catalog(`http://127.0.0.1:${upstream.port}`), variables: limits };
  await using relay = await startRelay(upstream.port, cores, undefined, relayPlan);
  const costs: (Cost & { way: Way })[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    say(`sockets: round ${round} of ${rounds}`);
    for (const way of ways) costs.push({ way, ...(await measureCost(relay, way)) });
  }
  const memory: (Memory & { way: Way; count: number })[] = [];
  // Those behind which there is another take two files of the relay each.
  const reachable = maxStreams(openFilesLimit());
  for (const way of ways.slice(1)) {
    const count = Math.min(manySockets, way === "socket, provider by socket" ? reachable : 2 * reachable);
    say(`sockets: ${count} open, ${way}`);
    memory.push({ way, count, ...(await measureMemory(relay, way, count)) });
  }
  say(`\n${renderCosts(costs)}\n\n${renderMemory(memory)}`);
  return { costs, memory };
}

function renderCosts(costs: readonly (Cost & { way: Way })[]): string {
  const spread = (way: Way, figure: keyof Cost) =>
    spreadOf(costs.filter((cost) => cost.way === way).map((cost) => cost[figure]));
  const rows = ways.map((way) => {
    const [turn, event] = [spread(way, "turnUs"), spread(way, "eventUs")];
    const base = spread("SSE", "turnUs").median + 50 * spread("SSE", "eventUs").median;
    const ratio = (turn.median + 50 * event.median) / base;
    return [way, formatSpread(turn), formatSpread(event), formatRatio(ratio)];
  });
  return renderTable(["relay's CPU", "µs a turn", "µs an event", "turn of 50 events"], rows);
}

function renderMemory(memory: readonly (Memory & { way: Way; count: number })[]): string {
  const rows = memory.map(({ way, count, idleKb, turnKb }) => [
    way,
    String(count),
    formatFigure(idleKb),
    formatFigure(turnKb),
  ]);
  return renderTable(["relay's memory", "open", "KB each, idle", "KB each, after a turn"], rows);
}
