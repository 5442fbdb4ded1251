import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startScene } from "./scene.ts";

// A short form of what `npm run test:hostile` does at length. How late a loop was says nothing on a busy machine, so
// there are no bars on time here.
const scene = await startScene();
after(() => scene[Symbol.asyncDispose]());

const strikes: [name: string, told: string][] = [
  ["a list of 64 MB in stream", "400"],
  ["12 MB of chat to Anthropic", "200"],
  ["frames of 5 MB", "1009"],
];

for (const [name, told] of strikes) {
  test(`${name}: the relay answers, lives on and serves everybody else`, { timeout: 110_000 }, async () => {
    const damage = await scene.strike(name, 0);
    assert.deepEqual(
      { told: damage.told, isEnded: damage.isEnded, errors: damage.honest.errors },
      { told: `1 × ${told}`, isEnded: false, errors: [] },
    );
  });
}
