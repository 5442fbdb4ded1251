import { parseArgs } from "node:util";
import { attacks } from "./attacks.ts";
import { type Damage, type Rest, startScene } from "./scene.ts";

// What `npm run test:hostile` runs; see README.md.
const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    seconds: { type: "string", default: "3" },
    p99: { type: "string", default: "20" },
    max: { type: "string", default: "100" },
    shared: { type: "boolean", default: false },
  },
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const chosen = attacks.filter(
  ({ name }) => values.only.length === 0 || values.only.some((part) => name.includes(part)),
);
if (chosen.length === 0) throw new Error(`no attack ${values.only.join(", ")}`);

/** The memory of the relay's pod; the system ends a process that takes more. */
const podMib = 2_048;

/** What an attack did that it must not do. */
function faultsOf({ figures, honest, isEnded, isKept }: Damage & Rest): string[] {
  const faults: string[] = [];
  if (isEnded) faults.push("the relay ended");
  const { p99Ms, maxMs, workP99Ms, workMaxMs } = figures;
  if ((values.shared ? workP99Ms : p99Ms) > Number(values.p99)) faults.push("p99");
  if ((values.shared ? workMaxMs : maxMs) > Number(values.max)) faults.push("max");
  if (honest.errors.length > 0) faults.push(`honest callers: ${honest.errors[0]}`);
  if (isKept) faults.push("held memory");
  if (figures.peakMib > podMib) faults.push("peak");
  return faults;
}

const columns = [
  ["attack", "told", "loop delay p99 ms", "max ms", "its work p99 ms", "max ms", "honest calls", "errors"],
  ["slowest ms", "peak MiB", "at rest MiB", "held MiB", "missed"],
].flat();
say(`| ${columns.join(" | ")} |`);
say(`|${"---|".repeat(columns.length)}`);
await using scene = await startScene();
let missed = 0;
for (const { name } of chosen) {
  const damage = { ...(await scene.strike(name, Number(values.seconds))), ...(await scene.rest()) };
  const { told, figures, honest, restMib, usedMib } = damage;
  const faults = faultsOf(damage);
  if (faults.length > 0) missed += 1;
  const figuresOf = [
    figures.p99Ms,
    figures.maxMs,
    figures.workP99Ms,
    figures.workMaxMs,
    honest.calls,
    honest.errors.length,
    honest.slowestMs,
    figures.peakMib,
    restMib,
    usedMib,
  ];
  say(`| ${[name, told, ...figuresOf.map((figure) => figure.toFixed(0)), faults.join("; ")].join(" | ")} |`);
}
say(missed === 0 ? "\nEvery attack stayed within the bars." : `\n${missed} of ${chosen.length} attacks missed a bar.`);
process.exitCode = missed === 0 ? 0 : 1;
