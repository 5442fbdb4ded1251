import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import type { RelayLine } from "../../../services/auth-quota/testing/relay-line.ts";

type Operations = Parameters<RelayLine["send"]>[0];

/** Sends operations together and resolves with a verdict for each, in their order. */
export type SendBatch = (operations: Operations) => Promise<{ verdict: Verdict }[]>;

/** Who pays for calls, and from where they come. */
export type Payer = { accountId: string; keyId: string; keyHash: Uint8Array; ip: string };

/** How operations reach auth-quota. */
export type Variant = { ask: SendBatch; perBatch: number; payers: readonly Payer[] };

/** What came of a run. `settled` counts charges that were taken, `refusals` the other verdicts by step and name. */
export type PairsRun = { pairs: number; settled: number; refusals: Map<string, number> };

/** How many operations wait for an answer at once, in whatever batches they travel. */
export const operationsInFlight = 512;

/** What each call is charged, in nano-USD. */
export const costNanos = 700_000n;
const estimateNanos = 1_000_000n;
// About the size of a real usage record.
const record = Buffer.alloc(300, 7);

/** Reserves and settles calls for `durationMs`, each as soon as the one before it is answered; at least one each. */
export async function runPairs(variant: Variant, durationMs: number, inFlight = operationsInFlight): Promise<PairsRun> {
  const run: PairsRun = { pairs: 0, settled: 0, refusals: new Map() };
  const startedMs = performance.now();
  const callUntilOver = async (): Promise<void> => {
    do await runBatch(variant, run);
    while (performance.now() - startedMs < durationMs);
  };
  await Promise.all(Array.from({ length: inFlight / variant.perBatch }, callUntilOver));
  return run;
}

async function runBatch({ ask, perBatch, payers }: Variant, run: PairsRun): Promise<void> {
  const calls = Array.from({ length: perBatch }, (_, index) => ({
    rid: createRid(),
    // Batches of one go around the payers as larger ones do.
    payer: payers[(run.pairs + index) % payers.length] as Payer,
  }));
  const reserved = await ask(
    calls.map(({ rid, payer: { keyHash, ip } }) => ({
      case: "reserve",
      value: { rid, keyHash, ip, model: "m", estimateNanos },
    })),
  );
  const settled = await ask(
    calls.map(({ rid, payer: { accountId, keyId } }) => ({
      case: "settle",
      value: { rid, accountId, keyId, costNanos, record },
    })),
  );
  run.pairs += perBatch;
  run.settled += settled.length - refusedIn(settled, "settle", run.refusals);
  refusedIn(reserved, "reserve", run.refusals);
}

function refusedIn(answers: { verdict: Verdict }[], step: string, refusals: Map<string, number>): number {
  const refused = answers.filter(({ verdict }) => verdict !== Verdict.OK);
  for (const { verdict } of refused) {
    const name = `${step} ${nameOf(verdict)}`;
    refusals.set(name, (refusals.get(name) ?? 0) + 1);
  }
  return refused.length;
}

function nameOf(verdict: Verdict): string {
  return Object.entries(Verdict).find(([, number]) => number === verdict)?.[0] ?? String(verdict);
}
