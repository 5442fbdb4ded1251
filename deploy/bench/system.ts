import { startMeter } from "./cpu-meter.ts";
import { smallLoad, type Load } from "./loads.ts";
import type { RelayTarget } from "./relay-target.ts";
import type { Recorder } from "./recorder.ts";
import type { World } from "./world.ts";

export const systemLoad: Load = { ...smallLoad, name: "whole system, 1 KB, 64 connections", windowMs: 2_000 };
export const wholeSystem = "CPU µs per call, whole system";

/** CPU per call by process, in microseconds. */
export type CpuByProcess = Record<string, number>;

/**
 * Puts a load on the relay and returns the CPU of all processes for one call of it, until the last call is booked:
 * what lags behind is paid, too. Figures of the loader's own window are kept in the recorder.
 */
export async function meterCalls(
  recorder: Recorder,
  relay: RelayTarget,
  { round, load }: { round: number; load: Load },
): Promise<CpuByProcess> {
  await relay.ledger.waitUntilBooked();
  const stop = startMeter(relay.readers);
  const { allCalls } = await recorder.run(round, load, relay);
  await relay.ledger.waitUntilBooked();
  const { cpuUs } = stop();
  return Object.fromEntries(Object.entries(cpuUs).map(([name, us]) => [name, us / allCalls.whole]));
}

/** The sum over all processes; those that cannot be read here, such as a store in a container, are not in it. */
export function sumOf(cpu: CpuByProcess): number {
  return Object.values(cpu).reduce((sum, us) => sum + (us || 0), 0);
}

/** CPU of everything that works for a call. */
export async function measureSystem({ relay, recorder, plan }: World, rounds: number): Promise<void> {
  if (!relay) return;
  plan.say(`whole system: ${rounds} rounds`);
  await recorder.warm(systemLoad, relay);
  for (let round = 1; round <= rounds; round += 1) await measureSystemOnce(recorder, relay, round);
}

/** One round of it. */
export async function measureSystemOnce(recorder: Recorder, relay: RelayTarget, round: number): Promise<void> {
  const cpu = await meterCalls(recorder, relay, { round: 0, load: systemLoad });
  const place = { round, load: systemLoad.name, target: "relay" as const };
  recorder.add([
    ...Object.entries(cpu).map(([name, value]) => ({ ...place, figure: `CPU µs per call, ${name}`, value })),
    { ...place, figure: wholeSystem, value: sumOf(cpu) },
  ]);
}
