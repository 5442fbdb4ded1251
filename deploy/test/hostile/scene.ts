import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { catalogText, modelOn, upstreamAt } from "../e2e/catalog.ts";
import { startWorld, type World } from "../e2e/world.ts";
import { type Figures, takeFigures } from "./figures.ts";
import { hostileModels } from "./hostile-answers.ts";
import { type HonestTally, startHonestCallers } from "./honest-callers.ts";

/** What the chart gives a relay of 2 GiB. */
const heapMib = 1_024;
const credit = 1_000_000_000_000_000n;
const settleMs = 500;
const restTriesMs = 15_000;
/** What a relay at rest may hold more than before any attack: what it keeps of calls on purpose is bounded by less. */
const keptMib = 64;

/** What one attack did. */
export type Damage = {
  name: string;
  told: string;
  figures: Figures;
  honest: HonestTally;
  isEnded: boolean;
};

/** What the relay still holds, and takes, when it had time to give back, and whether it holds too much. */
export type Rest = { usedMib: number; restMib: number; isKept: boolean };

export type Scene = AsyncDisposable & {
  strike: (name: string, seconds: number) => Promise<Damage>;
  /** Waits until the relay has let go of what it held, for 15 s at most. */
  rest: () => Promise<Rest>;
  linesOf: World["linesOf"];
};

const file = (name: string): string => join(import.meta.dirname, name);

function catalogOf(fakeUrl: string, hostileUrl: string): string {
  const at = (dialects: string[]): object => upstreamAt(hostileUrl, { dialects: dialects as never });
  const text = { dialects: ["openai-chat", "openai-responses", "anthropic-messages"] as never };
  const many = { context_tokens: 100_000_000, ...text };
  const on = (upstream: string, model: string): object =>
    modelOn(upstream, { upstreams: [{ name: upstream, model }], ...many });
  const single = (upstream: string, dialect: string, price: Record<string, string>): object => ({
    ...modelOn(upstream, { upstreams: [{ name: upstream, model: "plain" }], dialects: [dialect] as never }),
    price: { version: "1", ...price },
  });
  const hostile = ["openai-chat", "openai-responses", "openai-embeddings", "openai-speech", "openai-transcriptions"];
  hostile.push("openai-realtime");
  const embed = { input_tokens: "1" };
  return catalogText({
    upstreams: {
      fake: upstreamAt(fakeUrl),
      hostile: at(hostile),
      "hostile-anthropic": at(["anthropic-messages"]),
      "hostile-gemini": at(["gemini-generate"]),
    },
    models: {
      honest: modelOn("fake"),
      passed: on("hostile", "plain"),
      "to-anthropic": on("hostile-anthropic", "plain"),
      "to-gemini": on("hostile-gemini", "plain"),
      ...Object.fromEntries(hostileModels.map((model) => [model, on("hostile", model)])),
      "answer-vectors": {
        ...single("hostile", "openai-embeddings", embed),
        upstreams: [{ name: "hostile", model: "answer-vectors" }],
      },
      embedded: single("hostile", "openai-embeddings", embed),
      "embedded-at-gemini": single("hostile-gemini", "openai-embeddings", embed),
      spoken: single("hostile", "openai-speech", { characters: "1" }),
      talk: single("hostile", "openai-realtime", { media_ms: "1" }),
      transcribed: single("hostile", "openai-transcriptions", { media_ms: "1" }),
    },
  });
}

async function startUpstream(): Promise<AsyncDisposable & { url: string }> {
  const child = spawn(process.execPath, [file("hostile-upstream.ts")], { stdio: ["pipe", "pipe", "inherit"] });
  // Now, because one that has ended by itself will not end again.
  const ended = once(child, "exit");
  const [port] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

type Attacker = { child: ChildProcess; lines: AsyncIterator<string> };

/** Starts an attacker, who makes what to send and waits. */
async function startAttacker(name: string, target: string[]): Promise<Attacker> {
  const args = ["--max-old-space-size=4096", file("attacker.ts"), name, ...target];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  return { child, lines };
}

/** Starts the whole system with a hostile upstream, honest callers beside, and a relay that tells its figures. */
export async function startScene(): Promise<Scene> {
  await using resources = new AsyncDisposableStack();
  const upstream = resources.use(await startUpstream());
  const socket = join(tmpdir(), `hostile-${process.pid}.sock`);
  const hook = `--import=${pathToFileURL(file("measure-loop.ts")).href}`;
  const relay = { NODE_OPTIONS: `--max-old-space-size=${heapMib} ${hook}`, HOSTILE_SOCKET: socket };
  const world = resources.use(
    await startWorld({
      catalog: (fakeUrl) => catalogOf(fakeUrl, upstream.url),
      serviceEnvironment: { relay, "auth-quota": { ACCOUNT_REQUESTS_PER_MINUTE: "1000000" } },
    }),
  );
  const honestOne = await world.createCustomer({ creditNanos: credit });
  const hostileOne = await world.createCustomer({ creditNanos: credit });
  const poorOne = await world.createCustomer({ creditNanos: 1n });
  const { relayUrl } = world;
  const secrets = [hostileOne.secret, poorOne.secret];
  const honest = resources.use(startHonestCallers({ relayUrl, secret: honestOne.secret }));
  await pause(2_000);
  await honest.take();
  const { usedMib: firstMib, pid: firstPid } = await takeFigures(socket, "rest");

  const rest = async (): Promise<Rest> => {
    const endsAt = performance.now() + restTriesMs;
    for (;;) {
      const { usedMib, rssMib: restMib } = await takeFigures(socket, "rest");
      const isKept = usedMib > firstMib + keptMib;
      if (!isKept || performance.now() > endsAt) return { usedMib, restMib, isKept };
      await pause(settleMs);
    }
  };
  let pid = firstPid;
  const strike = async (name: string, seconds: number): Promise<Damage> => {
    const { child, lines } = await startAttacker(name, [relayUrl, ...secrets, String(seconds)]);
    const ended = once(child, "exit");
    await honest.take();
    await takeFigures(socket);
    child.stdin?.write("go\n");
    const { value: told = "the attacker died" } = (await lines.next()) as { value?: string };
    const tally = await honest.take();
    const figures = await takeFigures(socket);
    await ended;
    const isEnded = figures.pid !== pid;
    ({ pid } = figures);
    return { name, told, figures, honest: tally, isEnded };
  };
  const owned = resources.move();
  return { strike, rest, linesOf: world.linesOf, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
