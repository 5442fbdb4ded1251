import { setTimeout as pause } from "node:timers/promises";
import { type LinkName, linkNames } from "./links.ts";
import type { Proxy } from "./proxy.ts";
import type { Round, Scenario } from "./scenario.ts";
import type { Verdict } from "./verdict.ts";

// A caller cannot be served without these; without the others it notices nothing.
const feltLinks = new Set<LinkName>([
  "callers to relay",
  "relay to auth-quota",
  "relay to upstream",
  "auth-quota to Redis",
]);
// What an upstream that is cut off may cause by the public API's error table.
const upstreamStatuses = [500, 502, 503, 504];
const delayMs = 100;

type Harm = { name: string; minMs: number; maxMs: number; do: (proxy: Proxy) => void };

const harms: readonly Harm[] = [
  { name: "cut", minMs: 500, maxMs: 4_000, do: (proxy) => proxy.cut() },
  { name: "frozen", minMs: 2_500, maxMs: 6_000, do: (proxy) => proxy.freeze() },
  { name: "slow", minMs: 1_000, maxMs: 2_000, do: (proxy) => proxy.delay(delayMs) },
];

/** Cuts, freezes and slows each link down under load, heals it, and judges link by link. */
export async function runCuts(scenario: Scenario, names: readonly LinkName[] = linkNames): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const name of names) {
    const isUpstream = name === "relay to upstream";
    const rules = isUpstream ? { alsoAllowed: upstreamStatuses } : {};
    const { report, ends } = await scenario.round((round) => harmLink(scenario, round, name), rules);
    scenario.say(`  ${name}: ${ends}`);
    verdicts.push({ name, kills: 0, faults: harms.length, report });
  }
  return verdicts;
}

async function harmLink(scenario: Scenario, round: Round, name: LinkName): Promise<void> {
  const proxy = scenario.links.proxies[name];
  round.isUnnoticed = !feltLinks.has(name);
  await round.more(1);
  if (proxy.opened() === 0) round.problems.push(`nobody goes by the link ${name}`);
  for (const { name: how, minMs, maxMs, do: harm } of harms) {
    await round.more(scenario.random.between(10, 30));
    const forMs = scenario.random.between(minMs, maxMs);
    scenario.say(`  ${name} ${how} for ${forMs} ms`);
    harm(proxy);
    await pause(forMs);
    proxy.heal();
    await round.more(20);
  }
}
