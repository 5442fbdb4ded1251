import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { claimCores } from "./cores.ts";
import { loads, runLoad, type Load } from "./loads.ts";
import { startRelay, type RelayTarget } from "./relay-target.ts";
import { renderErrors, renderRows, summarize, type Window } from "./results.ts";
import { startProxy, startUpstream, type Target } from "./targets.ts";
import { measureTranslations, renderTranslations } from "./translation.ts";

// What `npm run bench` runs; see README.md for what it measures and how to read it.
const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    "without-relay": { type: "boolean", default: false },
    output: { type: "string", default: join(import.meta.dirname, "../../.local/bench.json") },
  },
});
const rounds = Number(options.rounds);
const say = (text: string): void => void process.stdout.write(`${text}\n`);

await using resources = new AsyncDisposableStack();
const cores = claimCores();
say(cores.isPinned ? "core 0: what is measured; core 1: everything else" : "NOT PINNED: no taskset, or one core only");
const upstream = resources.use(await startUpstream());
const origin = `http://127.0.0.1:${upstream.port}`;
const bare = resources.use(await startProxy("bare", origin, cores));
const pipe = resources.use(await startProxy("pipe", origin, cores));
const relay = options["without-relay"] ? undefined : await startWholeStack();
const targets: Target[] = [bare, pipe, ...(relay ? [relay] : [])];

say("warming up");
let relayCalls = 0;
const windows: Window[] = [];
// The first load also runs until the code of a target is compiled; without it round 1 would count that.
for (const [index, load] of loads.entries()) {
  for (const target of targets) await measure({ ...load, windowMs: index === 0 ? 4_000 : 1_000 }, target);
}
for (let round = 1; round <= rounds; round += 1) {
  say(`round ${round} of ${rounds}`);
  for (const load of loads) {
    for (const target of targets) {
      const report = await measure(load, target);
      windows.push({ round, load: load.name, target: target.name, report });
    }
  }
}
const audit = await relay?.audit(relayCalls);

const rows = summarize(loads, windows);
say(`\nMedian (least…greatest) of ${rounds} rounds; ratios are medians of the ratios within a round.\n`);
say(renderRows(rows));
if (audit) say(`\nledger: ${audit.isRight ? "right" : "!!! WRONG"}: ${audit.finding}`);
const translations = measureTranslations();
say(`\n${renderTranslations(translations)}`);
const errors = renderErrors(windows);
if (errors) say(`\n${errors}`);
await mkdir(dirname(options.output), { recursive: true });
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version, isPinned: cores.isPinned };
const outcome = { at: new Date().toISOString(), machine, rounds, rows, audit, translations, windows };
await writeFile(options.output, `${JSON.stringify(outcome, null, 2)}\n`);
say(`\nwritten to ${options.output}`);
if (errors || audit?.isRight === false) process.exitCode = 1;

async function startWholeStack(): Promise<RelayTarget> {
  say("starting the whole stack; its limits are raised, not switched off");
  return resources.use(await startRelay(origin, cores));
}

async function measure(load: Load, target: Target) {
  const report = await runLoad(load, target);
  if (target.name === "relay") relayCalls += report.allCalls.whole;
  return report;
}
