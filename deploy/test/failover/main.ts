import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { formatUsd } from "#shared/money/money.ts";
import { prepareStores, prepareTools, thisMachine } from "../../tools/local/machine.ts";
import { formatReport } from "../e2e/checker.ts";
import { drills } from "./drills.ts";
import { type Outcome, runDrill } from "./run.ts";

// What `npm run test:failover` runs; see README.md.
const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Math.floor(Math.random() * 1_000_000)) },
    callers: { type: "string", default: "8" },
    leases: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
  },
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const logFolder = join(import.meta.dirname, "../../../.local/failover");
const names = drills.map(({ name }) => name);
const unknown = values.only.filter((part) => !names.some((name) => name.startsWith(part)));
if (unknown.length > 0) throw new Error(`no drill ${unknown.join(", ")}; there are ${names.join(", ")}`);
const chosen = drills.filter(
  ({ name }) => values.only.length === 0 || values.only.some((part) => name.startsWith(part)),
);

await prepareStores(["redis", "nats", "postgres"], thisMachine(say));
await prepareTools(["pgbouncer"], thisMachine(say));
const only = `${values.leases ? " --leases" : ""}${values.only.map((name) => ` --only ${name}`).join("")}`;
const options = { seed: Number(values.seed), callers: Number(values.callers), hasLeases: values.leases, say };
say(`again: npm run test:failover -- --seed ${values.seed} --callers ${values.callers}${only}`);

const outcomes: Outcome[] = [];
for (const drill of chosen) {
  const startedAt = performance.now();
  say(`\n${drill.name}: ${drill.says}`);
  const outcome = await runDrill(drill, options);
  outcomes.push(outcome);
  say(`  ${outcome.ends} (${((performance.now() - startedAt) / 1_000).toFixed(0)} s)`);
  say(`  ${formatReport(outcome.report)}`);
  const { problems } = outcome.report;
  for (const problem of problems.slice(0, 20)) say(`  !!! ${problem}`);
  if (problems.length === 0) continue;
  await mkdir(logFolder, { recursive: true });
  for (const source of ["relay", "auth-quota", "billing", "video-task"] as const) {
    await writeFile(join(logFolder, `${drill.name}-${source}.log`), outcome.linesOf(source).join("\n"));
  }
  say(`  what the services wrote is in ${logFolder}`);
}

const isRight = ({ report, differenceNanos }: Outcome): boolean =>
  differenceNanos === 0n && report.problems.length === 0;
const width = Math.max(...names.map((name) => name.length));
say(`\n${"drill".padEnd(width)}  calls  failed  longest gap  difference in USD  verdict`);
for (const outcome of outcomes) {
  const { name, report, failed, longestGapMs, differenceNanos } = outcome;
  const figures = [
    String(report.calls).padStart(5),
    String(failed).padStart(6),
    `${(longestGapMs / 1_000).toFixed(1)} s`.padStart(11),
    formatUsd(differenceNanos).padStart(17),
    isRight(outcome) ? "right" : "WRONG",
  ];
  say([name.padEnd(width), ...figures].join("  "));
}
process.exitCode = outcomes.every(isRight) ? 0 : 1;
