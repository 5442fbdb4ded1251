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
  },
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const chosen = attacks.filter(
  ({ name }) => values.only.length === 0 || values.only.some((part) => name.includes(part)),
);
if (chosen.length === 0) throw new Error(`no attack ${values.only.join(", ")}`);

/** What an attack did that it must not do. */
function faultsOf({ figures, honest, isEnded, isKept }: Damage & Rest): string[] {
  const faults: string[] = [];
  if (isEnded) faults.push("the relay ended");
  if (figures.p99Ms > Number(values.p99)) faults.push("p99");
  if (figures.maxMs > Number(values.max)) faults.push("max");
  if (honest.errors.length > 0) faults.push(`honest callers: ${honest.errors[0]}`);
  if (isKept) faults.push("memory");
  return faults;
}

say(
  "| attack | told | loop delay p99 ms | max ms | honest calls | errors | slowest ms | peak" +
    " MiB | at rest MiB | missed |",
);
say("|---|---|---|---|---|---|---|---|---|---|");
await using scene = await startScene();
let missed = 0;
for (const { name } of chosen) {
  const damage = { ...(await scene.strike(name, Number(values.seconds))), ...(await scene.rest()) };
  const { told, figures, honest, restMib } = damage;
  const faults = faultsOf(damage);
  if (faults.length > 0) missed += 1;
  const figuresOf = [
    figures.p99Ms,
    figures.maxMs,
    honest.calls,
    honest.errors.length,
    honest.slowestMs,
    figures.peakMib,
    restMib,
  ];
  say(`| ${[name, told, ...figuresOf.map((figure) => figure.toFixed(0)), faults.join("; ")].join(" | ")} |`);
}
say(missed === 0 ? "\nEvery attack stayed within the bars." : `\n${missed} of ${chosen.length} attacks missed a bar.`);
process.exitCode = missed === 0 ? 0 : 1;
