import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Phase, type PhaseOptions, phases } from "./phases.ts";
import { formatVerdict, isRight, sumOf, type Verdict } from "./verdict.ts";

// What `npm run test:chaos` runs; see README.md.
const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Math.floor(Math.random() * 1_000_000)) },
    kills: { type: "string", default: "200" },
    minutes: { type: "string", default: "600" },
    callers: { type: "string", default: "16" },
    point: { type: "string", default: "" },
    "postgres-away": { type: "string", default: "60" },
    leases: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
  },
});

function wholeNumber(name: "seed" | "kills" | "minutes" | "callers" | "postgres-away"): number {
  const number = Number(values[name]);
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`--${name} must be a whole number`);
  return number;
}

function readOptions(): PhaseOptions {
  const [seed, kills, minutes] = [wholeNumber("seed"), wholeNumber("kills"), wholeNumber("minutes")];
  const postgresAwayMs = wholeNumber("postgres-away") * 1_000;
  return { seed, kills, minutes, point: values.point, callers: wholeNumber("callers"), postgresAwayMs };
}

function chosenPhases(): Phase[] {
  const names = phases.map(({ name }) => name);
  const unknown = values.only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`no phase ${unknown.join(", ")}; there are ${names.join(", ")}`);
  return phases.filter(({ name }) => values.only.length === 0 || values.only.includes(name));
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const logFolder = join(import.meta.dirname, "../../../.local/chaos");

/** Runs one phase on a system of its own; when it ends badly, what the services wrote is kept. */
async function runPhase(phase: Phase, options: PhaseOptions): Promise<Verdict> {
  const startedAt = performance.now();
  say(`\n${phase.name}: ${phase.says}`);
  await using stage = await phase.start({ ...options, hasLeases: values.leases, say });
  const parts = await stage.run(options);
  for (const part of parts) say(formatVerdict(part, true));
  const verdict = sumOf(phase.name, parts);
  say(`${formatVerdict(verdict, false).split("\n")[0]} (${((performance.now() - startedAt) / 1_000).toFixed(0)} s)`);
  if (isRight(verdict)) return verdict;
  await mkdir(logFolder, { recursive: true });
  for (const source of ["relay", "auth-quota", "billing", "video-task"] as const) {
    await writeFile(join(logFolder, `${phase.name}-${source}.log`), stage.linesOf(source).join("\n"));
  }
  say(`  what the services wrote is in ${logFolder}`);
  return verdict;
}

const options = readOptions();
const chosen = chosenPhases();
const { seed, kills, callers, point } = options;
const only = `${values.leases ? " --leases" : ""}${values.only.map((name) => ` --only ${name}`).join("")}`;
const points = point === "" ? "" : ` --point "${point}"`;
say(`again: npm run test:chaos -- --seed ${seed} --kills ${kills} --callers ${callers}${only}${points}`);
const verdicts: Verdict[] = [];
for (const phase of chosen) verdicts.push(await runPhase(phase, options));
const total = sumOf("in all", verdicts);
say("");
for (const verdict of [...verdicts, total]) say(formatVerdict(verdict, false).split("\n")[0] ?? "");
process.exitCode = isRight(total) ? 0 : 1;
