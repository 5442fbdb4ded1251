import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { planDearStream } from "../e2e/call-mix.ts";
import type { CallLog } from "../e2e/caller.ts";
import { startSecondRelay } from "../e2e/second-relay.ts";
import type { Customer } from "../e2e/world.ts";
import type { Round, Scenario } from "./scenario.ts";

const streams = 8;
// A settle travels in a batch: only what ended this shortly before may be nowhere but on the relay's disk.
const tardyMs = 1_000;

/** Kills a second relay in the middle of long streams and deletes its spool: what it had not told is gone for good. */
export async function loseRelay(scenario: Scenario, round: Round): Promise<void> {
  const { world, random } = scenario;
  const spool = join(scenario.folder, "second-spool");
  const customer = await round.addCustomer();
  await using relay = await startSecondRelay(world, spool);
  let isOver = false;
  const work = async (): Promise<void> => {
    while (!isOver) await round.call(planStream(scenario, customer), { url: relay.url });
  };
  const working = Array.from({ length: streams }, work);
  await round.more(30);
  await pause(random.between(3_000, 7_000));
  isOver = true;
  const killedAtMs = Date.now();
  await relay.kill();
  await rm(spool, { recursive: true });
  await round.noteCheckpoints();
  await Promise.all(working);
  for (const call of round.others) {
    if (call.rid === undefined) continue;
    round.lostRelayRids.add(call.rid);
    if (mayBeLost(call, killedAtMs)) round.lostRids.add(call.rid);
  }
  await round.more(30);
}

function planStream({ random }: Scenario, customer: Customer) {
  const dialect = random.pick(["chat", "messages"] as const);
  return planDearStream(customer, { dialect, words: random.between(10, 120), gapMs: random.between(20, 90) });
}

function mayBeLost({ outcome, endedAtMs }: CallLog, killedAtMs: number): boolean {
  return outcome === "whole" && endedAtMs >= killedAtMs - tardyMs;
}
