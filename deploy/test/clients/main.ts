import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { until } from "#shared/testing/until.ts";
import { conversionCatalog, modelOf, providerNames, type ProviderName } from "../e2e/conversion.ts";
import { startWorld, type World } from "../e2e/world.ts";
import { clients, type Client, type Started } from "./clients.ts";
import { answerOf, recipeAnswers } from "./scripted-model.ts";
import { formatTable, sumOf, type Cell } from "./table.ts";

// What `npm run test:clients` runs; see README.md.
const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    upstream: { type: "string", multiple: true, default: [] },
    verbose: { type: "boolean", default: false },
  },
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const clientTimeoutMs = 600_000;
const words = ["word-alder", "word-birch"];
// By half of the upstreams recipes run as the README shows them, by the others as the console does.
const readmeUpstreams = new Set<ProviderName>(["chat", "messages"]);

/**
 * Models as most are: chat without tools of free text, Responses with a price for the web search of agents, and over a
 * WebSocket for callers who have one.
 */
function catalog(fakeUrl: string): string {
  const all = JSON.parse(conversionCatalog(fakeUrl)) as {
    upstreams: Record<string, object>;
    models: Record<string, { price?: object }>;
  };
  Object.assign(all.upstreams["responses"] ?? {}, { responses_websocket: true });
  Object.assign(all.models[modelOf("chat")] ?? {}, { quirks: ["no-custom-tools"] });
  Object.assign(all.models[modelOf("responses")]?.price ?? {}, { web_searches: "10000" });
  return JSON.stringify(all);
}

type Ended = { code: number; output: string; errors: string };

/** Runs a client to its end, with nothing of this process's environment but what programs need to start. */
function runClient({ command, args, environment, programs }: Started, folder: string): Promise<Ended> {
  const path = [programs ?? dirname(process.execPath), dirname(process.execPath), process.env["PATH"]].join(":");
  const env = { PATH: path, HOME: folder, TMPDIR: tmpdir(), NO_PROXY: "127.0.0.1", LANG: "C.UTF-8", ...environment };
  const child = spawn(command, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], timeout: clientTimeoutMs });
  const ended: Ended = { code: 1, output: "", errors: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (ended.output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (ended.errors += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ ...ended, code: code ?? 1 }));
  });
}

/** What a program's lines say of its checks. */
function readChecks({ code, output, errors }: Ended): Cell {
  const passed = output.match(/^ok /gm)?.length ?? 0;
  const failures = [...output.matchAll(/^failed (.*)$/gm)].map(([, what = ""]) => what);
  if (code !== 0 || passed + failures.length === 0) failures.push(`ended with ${code}: ${errors.slice(-600)}`);
  return { passed, failures };
}

/** An agent has done its task when it tells the words that only its tools could read. */
function readAgent({ code, output, errors }: Ended): Cell {
  const missing = words.filter((word) => !output.includes(word));
  if (missing.length === 0) return { passed: 1, failures: [] };
  return { passed: 0, failures: [`ended with ${code}: ${(output + errors).slice(-600)}`] };
}

/** The code of the quick start has worked when it prints what the model has answered. */
function readRecipe({ code, output, errors }: Ended): Cell {
  const isRight = code === 0 && recipeAnswers.some((answer) => output.includes(answer));
  if (isRight) return { passed: 1, failures: [] };
  return { passed: 0, failures: [`recipe ended with ${code}: ${(output + errors).slice(-600)}`] };
}

async function hasSocket(world: World, accountId: string): Promise<boolean> {
  const isOfIt = (line: string): boolean => line.includes("socket opened") && line.includes(accountId);
  const found = until("the line of its socket", () => world.linesOf("relay").some(isOfIt), 10_000);
  return found.then(
    () => true,
    () => false,
  );
}

async function runCell(world: World, client: Client, installed: string, upstream: ProviderName): Promise<Cell> {
  const folder = await mkdtemp(join(tmpdir(), "relay-client-"));
  try {
    await writeFile(join(folder, "first.txt"), `${words[0]}\n`);
    await writeFile(join(folder, "second.txt"), `${words[1]}\n`);
    const { secret: apiKey, accountId } = await world.createCustomer();
    const isByReadme = readmeUpstreams.has(upstream);
    const setting = { baseUrl: world.relayUrl, apiKey, model: modelOf(upstream), folder, isByReadme };
    const checked = client.checks && (await runClient(await client.checks(installed, setting), folder));
    const recipe = await runClient(await client.runRecipe(installed, setting), folder);
    if (values.verbose) {
      for (const { output, errors } of [checked, recipe].filter((ended) => ended !== undefined)) say(output + errors);
      for (const { path, body } of world.fake.received) say(`${path} ${JSON.stringify(body).slice(0, 6_000)}`);
    }
    if (client.needsSocket && !(await hasSocket(world, accountId)))
      return { passed: 0, failures: ["it opened no socket"] };
    return checked ? sumOf(readChecks(checked), readRecipe(recipe)) : readAgent(recipe);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function runAll(): Promise<boolean> {
  await using world = await startWorld({ catalog, fake: { behaviour: answerOf } });
  const upstreams = providerNames.filter((name) => values.upstream.length === 0 || values.upstream.includes(name));
  const rows: { name: string; cells: Cell[]; missing?: string }[] = [];
  for (const client of clients) {
    const isChosen = values.only.some((part) => client.name.toLowerCase().includes(part.toLowerCase()));
    if (values.only.length > 0 && !isChosen) continue;
    const installed = await client.install();
    if ("missing" in installed) {
      rows.push({ name: client.name, cells: [], missing: installed.missing });
      say(`${client.name}: skipped: ${installed.missing}`);
      continue;
    }
    const cells: Cell[] = [];
    for (const upstream of upstreams) {
      const cell = await runCell(world, client, installed.path, upstream);
      cells.push(cell);
      for (const failure of cell.failures) say(`${client.name} over ${upstream}: ${failure}`);
    }
    rows.push({ name: client.name, cells });
  }
  say(formatTable(upstreams, rows));
  return rows.every(({ cells }) => cells.every(({ failures }) => failures.length === 0));
}

process.exitCode = (await runAll()) ? 0 : 1;
