import assert from "node:assert/strict";
import { after, test } from "node:test";
import { attacks } from "./attacks.ts";
import { honestCalls, isFair, maxOvercharge, ratioOf, runAttack, startStage } from "./run.ts";
import { formatAttacks } from "./table.ts";

// A few of what `npm run test:cheats` runs, one for each way to cheat.
const names = [
  "prompt: base64, no counts told",
  "prompt: white space, no counts told",
  "answer: base64, no counts told",
  "answer: Chinese in use, no counts told",
  "text behind the beginning of a picture",
  "a picture of 4k in few bytes",
  "100 compressed pages on a balance for one",
  "usage told early and never again",
  "usage is a fraction",
  "previous_response_id",
  "20 calls at once on a balance for one, whole, no cap",
  "20 prompts of base64 at once on a balance for one",
  "20 calls at once with a small cap beside a large one of another server",
  "20 searches on a small balance",
  "n as a text",
];

const stage = await startStage();
after(() => stage[Symbol.asyncDispose]());

for (const name of names) {
  test(`nobody gets more than he pays for: ${name}`, async () => {
    const attack = attacks.find((one) => one.name === name);
    assert.ok(attack, "an attack of this name");
    const outcome = await runAttack(stage, attack);
    assert.ok(isFair(outcome), `\n${formatAttacks([outcome])}`);
  });
}

test("honest callers pay what the provider bills where it tells, and at most half more where it does not", async () => {
  const { told, untold } = honestCalls();
  for (const one of told.slice(0, 2)) {
    const { billedNanos, chargedNanos } = await runAttack(stage, one);
    assert.ok(billedNanos > 0n && chargedNanos - billedNanos < 100n && billedNanos - chargedNanos < 100n, one.name);
  }
  for (const one of untold.filter(({ name }) => /English|TypeScript/.test(name))) {
    const { billedNanos, chargedNanos } = await runAttack(stage, one);
    assert.ok(ratioOf(chargedNanos, billedNanos) <= maxOvercharge, one.name);
  }
});
