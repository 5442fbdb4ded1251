import { attacks } from "./attacks.ts";
import { honestCalls, isFair, maxOvercharge, ratioOf, runAttack, startStage, type Outcome } from "./run.ts";
import { formatAttacks, formatHonest } from "./table.ts";

// What `npm run test:cheats` runs; see README.md. With words, only attacks whose names have one of them.
const wanted = process.argv.slice(2);
const chosen = attacks.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));

await using stage = await startStage();
const outcomes: Outcome[] = [];
for (const attack of chosen) outcomes.push(await runAttack(stage, attack));
const { told, untold } = honestCalls();
const [ofTold, ofUntold]: [Outcome[], Outcome[]] = [[], []];
for (const one of told) ofTold.push(await runAttack(stage, one));
for (const one of untold) ofUntold.push(await runAttack(stage, one));
process.stdout.write(`${formatAttacks(outcomes)}\n\n${formatHonest(ofTold, ofUntold)}\n`);
const isOvercharged = ({ billedNanos, chargedNanos }: Outcome): boolean =>
  ratioOf(chargedNanos, billedNanos) > maxOvercharge;
const isWrong =
  outcomes.some((one) => !isFair(one) && one.pending === undefined) ||
  ofTold.some(
    ({ billedNanos, chargedNanos }) => billedNanos - chargedNanos > 10n || chargedNanos - billedNanos > 10n,
  ) ||
  ofUntold.some(isOvercharged);
if (isWrong) process.exitCode = 1;
