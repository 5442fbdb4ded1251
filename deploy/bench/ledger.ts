import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { costNanos } from "#shared/money/pricing.ts";
import { claim } from "./answers.ts";
import { priceNanos } from "./relay-catalog.ts";

const creditNanos = 1_000_000_000_000_000n;
const restTimeoutMs = 60_000;
const restPollMs = 50;
const atOnce = 16;
// Calls are booked in the order in which they ended, so a few accounts tell how far booking has come.
const askedAtRest = 8;

export type AccountsPlan = { accounts: number; keys: number; callsPerMinute: number };

/** The accounts that the bench's calls are charged to. */
export type Ledger = {
  /** Opens accounts with money and keys, and returns the secrets, those of one account after the other. */
  openAccounts: (plan: AccountsPlan) => Promise<string[]>;
  /** Waits until nothing is on its way any more: no hold is open, and every charge is booked. */
  waitUntilBooked: () => Promise<void>;
  /** Compares the ledger with the calls that were answered; returns its finding in words. */
  audit: (calls: RelayCalls) => Promise<Audit>;
};

/** Calls that were answered whole, and those that were not, of which a part may have been delivered. */
export type RelayCalls = Record<"whole" | "broken", number>;

export type Audit = { isRight: boolean; finding: string };

type Clients = { authQuota: UnaryClient<typeof AuthQuotaService>; billing: UnaryClient<typeof BillingService> };

/** Works with the accounts of a stack that runs. */
export function openLedger(authQuota: Clients["authQuota"], billing: Clients["billing"]): Ledger {
  const accountIds: string[] = [];
  const openOne = async ({ keys, callsPerMinute }: AccountsPlan): Promise<string[]> => {
    const accountId = `acct_bench${accountIds.length + 1}`;
    accountIds.push(accountId);
    await authQuota.createAccount({ name: "Bench", accountId, requestsPerMinute: callsPerMinute });
    await billing.credit({
      accountId,
      amountNanos: creditNanos,
      paymentId: accountId,
      note: "Play money of the bench",
    });
    return manyTimes(keys, async () => (await authQuota.createKey({ accountId, name: "Bench" })).secret);
  };
  const openWork = async (asked: string[]): Promise<{ holds: bigint; unbooked: bigint }> => {
    let [holds, unbooked] = [0n, 0n];
    for (const accountId of asked) {
      const { openHolds, unpostedCalls } = await authQuota.getHolds({ accountId });
      holds += openHolds;
      unbooked += unpostedCalls;
    }
    return { holds, unbooked };
  };
  const rest = async (asked = accountIds.slice(-askedAtRest)): Promise<void> => {
    const deadlineMs = performance.now() + restTimeoutMs;
    for (;;) {
      const { holds, unbooked } = await openWork(asked);
      if (holds + unbooked === 0n || performance.now() > deadlineMs) return;
      await new Promise((resolve) => setTimeout(resolve, restPollMs));
    }
  };
  return {
    openAccounts: async (plan) => (await manyTimes(plan.accounts, () => openOne(plan))).flat(),
    waitUntilBooked: () => rest(),
    // Billing books behind the calls.
    audit: async (calls) => {
      await rest(accountIds);
      const { holds, unbooked } = await openWork(accountIds);
      let charged = 0n;
      for (const accountId of accountIds) charged += (await billing.getBalance({ accountId })).chargedNanos;
      return judge(calls, charged, { holds, unbooked });
    },
  };
}

/** Does the same many times, a few at once; results in the order in which they were begun. */
async function manyTimes<T>(times: number, work: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  while (results.length < times) {
    const batch = Math.min(atOnce, times - results.length);
    results.push(...(await Promise.all(Array.from({ length: batch }, work))));
  }
  return results;
}

/** Whole calls are charged in full and nothing else is, unless calls broke: each of those costs a call at most. */
export function judge(calls: RelayCalls, charged: bigint, left: { holds: bigint; unbooked: bigint }): Audit {
  const { inputTokens, outputTokens } = claim;
  const units = { inputTokens: BigInt(inputTokens), outputTokens: BigInt(outputTokens) };
  const price = costNanos(units, priceNanos);
  const least = BigInt(calls.whole) * price;
  const isWithin = charged >= least && charged <= least + BigInt(calls.broken) * price;
  const isRight = isWithin && left.holds + left.unbooked === 0n;
  const rest = `${left.holds} holds open, ${left.unbooked} charges not yet booked`;
  const broken = calls.broken === 0 ? "" : ` and a part of ${calls.broken} broken ones`;
  return {
    isRight,
    finding: `charged ${charged} nano-USD for ${calls.whole} whole calls worth ${least}${broken}; ${rest}`,
  };
}
