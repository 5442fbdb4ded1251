import { setTimeout as pause } from "node:timers/promises";
import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { emptyReport, finalKinds, isBookedTwice, kindsOf, priceOf, type Report } from "../e2e/checker.ts";
import { modelPrices } from "../e2e/load-models.ts";
import { createRandom } from "../e2e/random.ts";
import type { Customer } from "../e2e/world.ts";
import { serviceOf } from "./process-faults.ts";
import { type Scenario, signal } from "./scenario.ts";
import { type SpokenResponse, talk } from "./session-caller.ts";
import type { Verdict } from "./verdict.ts";

const restTimeoutMs = 120_000;
const servedTimeoutMs = 120_000;

type Harm = { name: string; kills: number; do: (scenario: Scenario) => Promise<void> };

const killed = (name: "relay" | "auth-quota" | "billing"): Harm => ({
  name: `${name} killed`,
  kills: 1,
  do: async (scenario) => {
    const service = serviceOf(scenario, name);
    await service.kill();
    await pause(scenario.random.between(0, 1_500));
    await service.restart();
  },
});

const linked = (
  name: "callers to relay" | "relay to upstream" | "relay to auth-quota",
  how: "cut" | "freeze",
): Harm => ({
  name: `${name}: ${how}`,
  kills: 0,
  do: async ({ links, random }) => {
    const proxy = links.proxies[name];
    if (proxy.opened() === 0) throw new Error(`nobody goes by the link ${name}`);
    proxy[how]();
    await pause(random.between(500, 4_000));
    proxy.heal();
  },
});

/** For longer than a relay may be silent, so that auth-quota ends what it has held. */
const paused: Harm = {
  name: "relay paused",
  kills: 0,
  do: async (scenario) => {
    const relay = serviceOf(scenario, "relay");
    signal(relay, "SIGSTOP");
    await pause(10_000);
    signal(relay, "SIGCONT");
  },
};

const sessionHarms: readonly Harm[] = [
  killed("relay"),
  linked("callers to relay", "cut"),
  linked("relay to upstream", "cut"),
  killed("auth-quota"),
  linked("relay to auth-quota", "freeze"),
  killed("billing"),
  linked("relay to upstream", "freeze"),
  linked("callers to relay", "freeze"),
  paused,
  killed("relay"),
];

const priceOfResponse = ({ claim }: SpokenResponse): bigint => {
  const prices = modelPrices["talking-model"];
  if (!prices) throw new Error("the model of sessions has no price");
  const others = { cacheReadTokens: 0, cacheWrite5mTokens: 0, cacheWrite1hTokens: 0, reasoningTokens: 0 };
  const media = { audioInputTokens: 0, audioOutputTokens: 0, imageInputTokens: 0, imageOutputTokens: 0, mediaMs: 0 };
  return priceOf({ ...others, ...media, ...claim }, prices);
};

/** Holds the lines of one call against what its caller was told. */
function judge(
  report: Report,
  rid: string,
  lines: readonly LedgerLine[],
  due: { leastNanos: bigint; mostNanos: bigint },
) {
  const charged = lines.reduce((sum, { amountNanos }) => sum - amountNanos, 0n);
  const isMissing =
    charged < due.leastNanos || (due.leastNanos > 0n && !lines.some(({ kind }) => finalKinds.has(kind)));
  const isOver = charged > due.mostNanos;
  const isDouble = isBookedTwice(lines);
  report.missing += isMissing ? 1 : 0;
  report.overcharged += isOver ? 1 : 0;
  report.double += isDouble ? 1 : 0;
  report.booked += due.leastNanos > 0n && !isMissing && !isOver && !isDouble ? 1 : 0;
  if (!isMissing && !isOver && !isDouble) return;
  report.problems.push(
    `${rid}: ${kindsOf(lines)}, charged ${charged}, which may be ${due.leastNanos} to ${due.mostNanos}`,
  );
}

function judgeAll(responses: readonly SpokenResponse[], lines: readonly LedgerLine[]): Report {
  const report = { ...emptyReport(), calls: responses.length };
  const byRid = Map.groupBy(lines, ({ rid }) => rid);
  const untold = responses.filter(({ rid }) => rid === undefined);
  for (const response of responses) {
    const { rid, isWhole, isSilent } = response;
    if (isSilent) report.problems.push(`a response was left without a word: ${rid}`);
    report.served += isWhole ? 1 : 0;
    report.broken += isWhole ? 0 : 1;
    if (rid === undefined) continue;
    const mostNanos = priceOfResponse(response);
    judge(report, rid, byRid.get(rid) ?? [], { leastNanos: isWhole ? mostNanos : 0n, mostNanos });
    byRid.delete(rid);
  }
  // Begun at the provider, and the caller was gone before he was told so.
  const prices = untold.map(priceOfResponse);
  const mostNanos = prices.reduce((most, price) => (price > most ? price : most), 0n);
  if (byRid.size > untold.length)
    report.problems.push(`${byRid.size} calls of ${untold.length} that nobody was told of`);
  for (const [rid, found] of byRid) judge(report, rid, found, { leastNanos: 0n, mostNanos });
  return report;
}

/** Callers who keep sessions open, and what they were told. */
function startTalking({ world, links, random }: Scenario, customers: readonly Customer[]) {
  const url = links.lead("callers to relay", world.relayUrl);
  const responses: SpokenResponse[] = [];
  let isOver = false;
  const onEnded = (response: SpokenResponse): void => void responses.push(response);
  const talking = customers.map((customer) =>
    talk({ url, customer, random: createRandom(random.between(0, 1_000_000)), isOver: () => isOver, onEnded }),
  );
  return {
    responses,
    /** Waits until so many more responses were whole. */
    more: async (count: number): Promise<void> => {
      const wholes = (): number => responses.filter(({ isWhole }) => isWhole).length;
      const wanted = wholes() + count;
      await until(`${count} more responses are whole`, () => wholes() >= wanted, servedTimeoutMs);
    },
    stop: async (): Promise<void> => {
      isOver = true;
      await Promise.all(talking);
    },
  };
}

/** Harms the system while sessions are open, and judges what their responses were charged. */
export async function runSessions(scenario: Scenario): Promise<Verdict[]> {
  const { world, random, say } = scenario;
  const customers = await Promise.all(
    Array.from({ length: 6 }, () => world.createCustomer({ creditNanos: 10n ** 13n })),
  );
  const talking = startTalking(scenario, customers);
  const problems: string[] = [];
  try {
    for (const harm of sessionHarms) {
      await talking.more(random.between(10, 25));
      say(`  ${harm.name}`);
      await harm.do(scenario);
    }
    await talking.more(20);
  } catch (error) {
    problems.push(`the harm could not be done: ${String(error)}`);
  }
  await talking.stop();
  const lines: LedgerLine[] = [];
  for (const { accountId } of customers) {
    const isAtRest = async (): Promise<boolean> => {
      const { openHolds, unpostedCalls, balanceNanos, availableNanos } = await world.moneyOf(accountId);
      return openHolds === 0n && unpostedCalls === 0n && balanceNanos === availableNanos;
    };
    await until(`${accountId} has nothing held`, isAtRest, restTimeoutMs).catch((error: unknown) => {
      problems.push(String(error));
    });
    lines.push(...(await world.ledgerOf(accountId)));
  }
  const report = judgeAll(talking.responses, lines);
  report.problems.push(...problems);
  const kills = sessionHarms.reduce((sum, harm) => sum + harm.kills, 0);
  return [{ name: "sessions", kills, faults: sessionHarms.length - kills, report }];
}
