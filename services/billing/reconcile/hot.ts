import type { AuditAccountsResponse, AuditedAccount, AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { absolute, counted, listed, right, usd, wrong, type CheckResult } from "../records/finding.ts";
import { readAccounts, type AccountRow } from "../store/funds.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import type { ProvisionalRow } from "../store/reconcile-calls.ts";

/** What reconciliation asks of auth-quota. */
export type HotAudit = Pick<UnaryClient<typeof AuthQuotaService>, "auditAccounts" | "listUnposted">;

/** Accounts in the hot store, and in the ledger before and after they were asked for there. */
export type HotComparison = {
  audited: AuditedAccount[];
  before: Map<string, AccountRow>;
  after: Map<string, AccountRow>;
  isCounted: boolean;
  /** Figures of the whole store. */
  whole: Pick<AuditAccountsResponse, "oldestHoldMs" | "oldestUnpostedMs" | "unpostedCalls">;
};

const accountsPerCall = 1_000;

/** Asks auth-quota and the ledger for the same accounts; also without accounts, for the figures of the whole store. */
export async function compareHot(
  { authQuota, pool }: { authQuota: HotAudit; pool: Pool },
  accountIds: readonly string[],
): Promise<HotComparison> {
  const whole = { oldestHoldMs: 0n, oldestUnpostedMs: 0n, unpostedCalls: 0n };
  const compared = { audited: [], before: new Map(), after: new Map(), isCounted: true, whole } as HotComparison;
  for (let at = 0; at === 0 || at < accountIds.length; at += accountsPerCall) {
    const ids = accountIds.slice(at, at + accountsPerCall);
    for (const row of await readAccounts(pool, ids)) compared.before.set(row.accountId, row);
    const response = await authQuota.auditAccounts({ accountIds: ids });
    for (const row of await readAccounts(pool, ids)) compared.after.set(row.accountId, row);
    compared.audited.push(...response.accounts);
    compared.isCounted &&= response.isCounted;
    compared.whole = response;
  }
  return compared;
}

type Problem = { words: string; nanos: bigint };

/**
 * R5: at the same version both have the same balance, and what accounts are kept to hold and to owe is what their calls
 * add up to (money invariant I5). An account that changes meanwhile is looked at in the next run.
 */
export function judgeHot({ audited, before, after, isCounted }: HotComparison): CheckResult {
  const problems = audited.flatMap((account) => {
    const rows = [before.get(account.accountId), after.get(account.accountId)];
    return [...balanceProblems(account, rows), ...(isCounted ? sumProblems(account) : signProblems(account))].map(
      ({ words, nanos }) => ({ words: `${account.accountId}: ${words}`, nanos }),
    );
  });
  const behind = audited.filter(
    ({ accountId, isLoaded, postedVersion }) => isLoaded && postedVersion < (before.get(accountId)?.version ?? 0n),
  ).length;
  const moving = audited.filter(({ isMoving }) => isMoving).length;
  const words = [
    counted(audited.length, "account"),
    behind > 0 && `${behind} not told the latest balance yet`,
    moving > 0 && `${moving} in motion, not counted`,
    !isCounted && "too many open calls to count their sums",
  ].filter((part) => part !== false);
  if (problems.length === 0) return isCounted ? right(words.join("; ")) : listed(words.join("; "));
  const offNanos = problems.reduce((sum, { nanos }) => sum + nanos, 0n);
  const found = `${counted(problems.length, "sum")} of the hot store wrong, by ${usd(offNanos)} in all`;
  return wrong(
    [found, ...words].join("; "),
    problems.map((problem) => problem.words),
    offNanos,
  );
}

function balanceProblems(account: AuditedAccount, rows: (AccountRow | undefined)[]): Problem[] {
  if (!account.isLoaded) return [];
  const { postedNanos, postedVersion } = account;
  const { version: newest, balanceNanos } = rows.at(-1) ?? { version: 0n, balanceNanos: 0n };
  if (postedVersion > newest) {
    const words = `has ${usd(postedNanos)} at version ${postedVersion}, the ledger ${usd(balanceNanos)} at ${newest}`;
    return [{ words, nanos: absolute(balanceNanos - postedNanos) }];
  }
  const same = rows.find((row) => row?.version === postedVersion);
  // The hot store counts exactly up to this amount only, and no account may have more.
  if (!same || absolute(same.balanceNanos) > maxAccountNanos || same.balanceNanos === postedNanos) return [];
  const words = `has ${usd(postedNanos)} at version ${postedVersion}, the ledger ${usd(same.balanceNanos)}`;
  return [{ words, nanos: absolute(same.balanceNanos - postedNanos) }];
}

function sumProblems(account: AuditedAccount): Problem[] {
  if (account.isMoving) return signProblems(account);
  const pairs = [
    ["holds", account.heldNanos, account.countedHeldNanos],
    ["owes", account.unpostedNanos, account.countedUnpostedNanos],
  ] as const;
  return pairs
    .filter(([, kept, summed]) => kept !== summed)
    .map(([word, kept, summed]) => ({
      words: `${word} ${usd(kept)}, its calls add up to ${usd(summed)}`,
      nanos: absolute(kept - summed),
    }));
}

function signProblems({ heldNanos, unpostedNanos, openHolds, unpostedCalls }: AuditedAccount): Problem[] {
  const isNegative = [heldNanos, unpostedNanos, openHolds, unpostedCalls].some((figure) => figure < 0n);
  if (!isNegative) return [];
  const words = `holds ${usd(heldNanos)} in ${openHolds} calls, owes ${usd(unpostedNanos)} in ${unpostedCalls}`;
  return [{ words, nanos: 0n }];
}

const outboxListedMs = 60_000n;
// All must be booked 15 minutes after a fault is over.
const outboxWrongMs = 900_000n;
// No call is silent for an hour; auth-quota ends such holds after two.
const holdListedMs = 3_600_000n;
const holdWrongMs = 8_100_000n;

/** R6: nothing open is older than it may get. `provisional` are calls without a final, older than a day. */
export function judgeAged({ whole }: HotComparison, provisional: readonly ProvisionalRow[]): CheckResult {
  const { oldestHoldMs, oldestUnpostedMs, unpostedCalls } = whole;
  const items = [
    oldestUnpostedMs > outboxListedMs &&
      `outbox: the oldest of ${counted(unpostedCalls, "charge")} waits for ${seconds(oldestUnpostedMs)} s`,
    oldestHoldMs > holdListedMs && `holds: the oldest gives no sign of life for ${seconds(oldestHoldMs)} s`,
    ...provisional.map(({ rid, chargedNanos }) => `${rid}: charged ${usd(chargedNanos)} provisionally, no final came`),
  ].filter((item) => item !== false);
  const words = [
    `oldest charge in the outbox ${seconds(oldestUnpostedMs)} s, oldest silent hold ${seconds(oldestHoldMs)} s`,
    `${counted(provisional.length, "provisional charge")} without a final for more than a day`,
  ].join("; ");
  if (oldestUnpostedMs > outboxWrongMs || oldestHoldMs > holdWrongMs) return wrong(words, items);
  return items.length > 0 ? listed(words, items) : right(words);
}

function seconds(ms: bigint): bigint {
  return ms / 1_000n;
}
