import { execFile } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { jetstreamManager } from "@nats-io/jetstream";
import { connectNats } from "#shared/testing/nats-login.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { until } from "#shared/testing/until.ts";
import type { Round, Scenario } from "./scenario.ts";

const run = promisify(execFile);

/**
 * Forbids the relay to write to files, as a full disk does (Linux: `prlimit`). It refuses calls until it can write
 * again; those under way are charged all the same.
 */
export async function fillDisk(scenario: Scenario, round: Round): Promise<void> {
  const { relay } = scenario.world.stack.services;
  const limit = (bytes: string) => run("prlimit", ["--pid", String(relay.pid), `--fsize=${bytes}:unlimited`]);
  await round.more(scenario.random.between(20, 60));
  await limit("0");
  const isRefused = (): boolean => round.load.calls.slice(-20).some(({ status }) => status === 503);
  await until("calls are refused", isRefused);
  await pause(scenario.random.between(500, 3_000));
  await limit("unlimited");
  await round.more(60);
}

/** Lets the usage stream hold no more than it does, and later as much as it may; callers must not notice. */
export async function fillStream(scenario: Scenario, round: Round): Promise<void> {
  round.isUnnoticed = true;
  await using connection = await openNats(scenario.world.stack.stores.urls.nats);
  const manager = await jetstreamManager(connection.nats);
  await round.more(scenario.random.between(20, 60));
  const { config, state } = await manager.streams.info(usageStream);
  await manager.streams.update(usageStream, { max_bytes: state.bytes });
  await round.more(scenario.random.between(60, 120));
  const { state: after } = await manager.streams.info(usageStream);
  if (after.bytes > state.bytes) round.problems.push(`a full stream grew from ${state.bytes} to ${after.bytes} bytes`);
  await manager.streams.update(usageStream, { max_bytes: config.max_bytes });
  await round.more(40);
}

async function openNats(url: string) {
  const nats = await connectNats(url);
  return { nats, [Symbol.asyncDispose]: () => nats.close() };
}
