import type { Bar } from "./bars.ts";
import { cpuPerCall, cpuPerChunk } from "./figures.ts";
import { coldLoad, halfLoad, rateLoad } from "./latency.ts";
import { cellName, gapsLoad } from "./loads.ts";
import { ratioAt, spreadAt, type Measured, type MeasuredKey } from "./measured.ts";
import { manyStreams, someStreams } from "./memory.ts";
import type { Spread } from "./statistics.ts";
import { cpuOf, systemLoad, wholeSystem } from "./system.ts";
import type { TargetName } from "./targets.ts";

/** Two figures of the same rounds that are compared, or one figure that is looked at alone. */
export type Ratio = {
  what: string;
  of: MeasuredKey;
  to?: MeasuredKey;
  /** The bar that the median may not exceed. */
  max?: number;
  /** Whether `npm run bench:check` holds it against the baseline: CPU only, which is steady enough. */
  isGuarded: boolean;
};

const small = "1 KB, 64 connections";
const middle = "32 KB, 64 connections";
const large = "1 MB, 16 connections";
const together = "SSE back to back, 64 streams";

const at = (load: string, figure: string, target: TargetName): MeasuredKey => ({ load, figure, target });

const relayTo = (what: string, load: string, figure: string, other: TargetName) => ({
  what,
  of: at(load, figure, "relay"),
  to: at(load, figure, other),
});

// Converted streams beside bare ones of the chat format: the same number of chunks, of about the same size.
const converted = (client: "openai-chat" | "anthropic-messages", upstream: "openai-chat" | "anthropic-messages") => ({
  of: at(cellName("paced", client, upstream), cpuPerChunk, "relay"),
  to: at(gapsLoad, cpuPerChunk, "bare"),
});

// The same load within leases and without, in turns.
const leasedTo = (what: string, load: string, figure: string, max: number): Ratio => ({
  what: `${what}, with leases to without`,
  of: at(load, figure, "leased"),
  to: at(load, figure, "relay"),
  max,
  isGuarded: false,
});

/** Everything that is compared, in the order in which it is told. */
export const ratios: Ratio[] = [
  { ...relayTo("CPU per call, 1 KB, to node:http pipe", small, cpuPerCall, "pipe"), max: 1, isGuarded: true },
  { ...relayTo("CPU per call, 1 KB, to undici dispatch", small, cpuPerCall, "bare"), max: 1.9, isGuarded: true },
  { ...relayTo("CPU per call, 1 KB, to Portkey", small, cpuPerCall, "portkey"), max: 1 / 6, isGuarded: false },
  { ...relayTo("CPU per chunk to undici dispatch", gapsLoad, cpuPerChunk, "bare"), max: 1.15, isGuarded: true },
  {
    what: "CPU per chunk, chat on messages, to undici dispatch",
    ...converted("openai-chat", "anthropic-messages"),
    max: 1.25,
    isGuarded: true,
  },
  {
    what: "CPU per chunk, messages on chat, to undici dispatch",
    ...converted("anthropic-messages", "openai-chat"),
    max: 1.25,
    isGuarded: true,
  },
  { ...relayTo("CPU per chunk to Portkey", gapsLoad, cpuPerChunk, "portkey"), max: 0.5, isGuarded: false },
  { ...relayTo("RSS at 1,000 streams to Portkey", someStreams, "RSS MB", "portkey"), max: 0.5, isGuarded: false },
  { ...relayTo("CPU per call, 1 MB, to undici dispatch", large, cpuPerCall, "bare"), max: 1.3, isGuarded: true },
  {
    ...relayTo("added p99 at half of saturation to node:http pipe", halfLoad, "added p99 ms", "pipe"),
    max: 1.5,
    isGuarded: false,
  },
  ...[200, 500].flatMap((perSecond) =>
    [["p50", 2] as const, ["p99", 3] as const].map(([share, max]) => ({
      what: `added ${share} at ${perSecond} calls/s with leases, to undici dispatch`,
      of: at(rateLoad(perSecond), `added ${share} ms`, "leased"),
      to: at(rateLoad(perSecond), `added ${share} ms`, "bare"),
      max,
      isGuarded: false,
    })),
  ),
  {
    what: "RSS KB per open idle stream, 10,000 of them",
    of: at(manyStreams, "RSS KB per stream", "relay"),
    max: 40,
    isGuarded: false,
  },
  {
    what: "CPU per call, whole system to relay alone",
    of: at(systemLoad.name, wholeSystem, "relay"),
    to: at(systemLoad.name, cpuOf("relay"), "relay"),
    max: 1.6,
    isGuarded: true,
  },
  {
    what: "CPU per call, whole system to relay alone, with leases",
    of: at(systemLoad.name, wholeSystem, "leased"),
    to: at(systemLoad.name, cpuOf("relay"), "leased"),
    max: 1.6,
    isGuarded: false,
  },
  leasedTo("CPU per call of Redis", systemLoad.name, cpuOf("Redis"), 1 / 5),
  leasedTo("CPU per call of auth-quota", systemLoad.name, cpuOf("auth-quota"), 1 / 3),
  leasedTo("CPU per call of the relay", systemLoad.name, cpuOf("relay"), 0.6),
  leasedTo("added p50 of 1,000 cold accounts", coldLoad, "added p50 ms", 1.05),
  { ...relayTo("CPU per call, 32 KB, to undici dispatch", middle, cpuPerCall, "bare"), isGuarded: true },
  { ...relayTo("CPU per chunk, back to back, to undici dispatch", together, cpuPerChunk, "bare"), isGuarded: true },
  {
    what: "CPU per call, whole chat on messages, to undici dispatch",
    of: at(cellName("json", "openai-chat", "anthropic-messages"), cpuPerCall, "relay"),
    to: at(small, cpuPerCall, "bare"),
    isGuarded: true,
  },
  { ...relayTo("CPU per call, 1 KB, to nginx", small, cpuPerCall, "nginx"), isGuarded: false },
  { ...relayTo("CPU per chunk to nginx", gapsLoad, cpuPerChunk, "nginx"), isGuarded: false },
];

/** What a ratio came to, over the rounds; NaN where something of it was not measured. */
export function spreadOfRatio({ of, to }: Ratio, measured: readonly Measured[]): Spread {
  return to ? ratioAt(measured, of, to) : spreadAt(measured, of);
}

/** The bars of what was measured; ratios of which one side was left out are no bars of this run. */
export function barsOf(measured: readonly Measured[]): Bar[] {
  return ratios.flatMap((ratio) => {
    const { what, max } = ratio;
    const spread = spreadOfRatio(ratio, measured);
    return max === undefined || Number.isNaN(spread.median) ? [] : [{ what, max, measured: spread }];
  });
}
