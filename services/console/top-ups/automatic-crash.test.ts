import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startProcess, type ChildProcess } from "#shared/testing/child-process.ts";
import { until } from "#shared/testing/until.ts";
import { autoTopUps } from "../testing/auto-top-up.ts";
import { startPaying, type PaymentEnvironment } from "../testing/paying.ts";
import { join, setUp } from "../testing/people.ts";
import { chargeFaultPoints } from "../testing/fault-points.ts";

const entry = fileURLToPath(new URL("../main.ts", import.meta.url));
const preload = new URL("../testing/kill-at.ts", import.meta.url).href;

let paying: PaymentEnvironment;
let auto: ReturnType<typeof autoTopUps>;

before(async () => {
  paying = await startPaying();
  const { world } = paying;
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  const owner = await join(world, operator.browser, "acme", "owner");
  auto = autoTopUps(paying, owner);
  auto.setBalance(50n);
  await auto.saveCard();
  await auto.save();
  // From here on only the processes of the tests charge.
  await world.app[Symbol.asyncDispose]();
});
after(() => paying[Symbol.asyncDispose]());

/** A process of the console that dies at a point. */
async function start(killAt = ""): Promise<ChildProcess> {
  const given = Object.entries(paying.world.config).map(([name, value]) => [name, String(value)]);
  const { PASSWORD_MEMORY_KIB: _memory, PASSWORD_PASSES: _passes, ...config } = Object.fromEntries(given);
  const args = ["--import", preload, entry, killAt];
  return startProcess({ command: process.execPath, args, environment: config, orphanSignal: "SIGKILL" });
}

for (const point of chargeFaultPoints) {
  test(`killed at "${point}": two others charge and credit once`, { timeout: 120_000 }, async () => {
    const { stripe, world } = paying;
    stripe.cards.intents.clear();
    world.neighbours.received.length = 0;
    auto.setBalance(1n);
    await auto.compareAgain();
    const first = await start(point);
    assert.equal(await first.ended, "ended by SIGKILL", first.lastLines().join("\n"));
    assert.equal((await auto.charges()).at(-1)?.["state"], "begun");
    const others = await Promise.all([start(), start()]);
    await until(
      "it is booked",
      async () => {
        await auto.lookAgain();
        await auto.compareAgain();
        return (await auto.charges()).at(-1)?.["state"] === "paid";
      },
      60_000,
    );
    await auto.settleDown();
    await Promise.all(others.map((other) => other.end("SIGTERM")));
    assert.deepEqual([stripe.cards.intents.size, auto.balance()], [1, 21n]);
    assert.deepEqual(
      auto.credited(),
      [...stripe.cards.intents.keys()].map((id) => `stripe:${id}`),
    );
  });
}
