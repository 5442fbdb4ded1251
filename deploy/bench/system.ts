import { startMeter } from "./cpu-meter.ts";
import { smallLoad, type Load } from "./loads.ts";
import { readProcessUse } from "./process-use.ts";
import type { RelayTarget } from "./relay-target.ts";
import type { Recorder } from "./recorder.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

export const systemLoad: Load = { ...smallLoad, name: "whole system, 1 KB, 64 connections", windowMs: 2_000 };
export const wholeSystem = "CPU µs per call, whole system";
export const cpuOf = (name: string): string => `CPU µs per call, ${name}`;

/** A relay with the CPU of all that works for its calls. */
type Metered = Target & Pick<RelayTarget, "ledger" | "readers">;

/** CPU per call by process, in microseconds. */
export type CpuByProcess = Record<string, number>;

/**
 * Puts a load on the relay and returns the CPU of all processes for one call of it, until the last call is booked:
 * what lags behind is paid, too. Figures of the loader's own window are kept in the recorder.
 */
export async function meterCalls(
  recorder: Recorder,
  relay: Metered,
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

/** CPU of everything that works for a call, without leases and within them in turns. */
export async function measureSystem({ relay, recorder, plan, startFresh }: World, rounds: number): Promise<void> {
  if (!relay) return;
  plan.say(`whole system: ${rounds} rounds`);
  await using leased = await startFresh("leased");
  const readers = { ...relay.readers, relay: () => readProcessUse(leased.pid).cpuUs };
  const both: Metered[] = [relay, { ...leased, ledger: relay.ledger, readers }];
  for (const one of both) await recorder.warm(systemLoad, one);
  for (let round = 1; round <= rounds; round += 1) {
    for (const one of both) await measureSystemOnce(recorder, one, round);
  }
}

/** One round of it. */
export async function measureSystemOnce(recorder: Recorder, relay: Metered, round: number): Promise<void> {
  const cpu = await meterCalls(recorder, relay, { round: 0, load: systemLoad });
  const place = { round, load: systemLoad.name, target: relay.name };
  recorder.add([
    ...Object.entries(cpu).map(([name, value]) => ({ ...place, figure: cpuOf(name), value })),
    { ...place, figure: wholeSystem, value: sumOf(cpu) },
  ]);
}
