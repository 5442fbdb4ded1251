import { Verdict, type AuthQuotaService, type PostRequest } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { readFunds, type FundsSource } from "../hot/load.ts";
import type { Metrics } from "../metrics.ts";
import { unasked, writeBalance, writeSpending, type HotOperation, type HotStore } from "../store/hot.ts";
import { checkId, refuse } from "./validate.ts";

type PostDeps = { hot: HotStore; billing: FundsSource; metrics: Metrics; log: Logger };

// Bounds the time for which one run of the script keeps all others waiting.
const chunkSize = 500;
const fundsPerCall = 1_000;

/**
 * Takes over what billing has booked, mostly in one run. Balances go first: they already contain the charges that are
 * then taken out of the unposted sums, so available money is too low for a moment, never too high. For the same reason
 * billing is asked for the sums of accounts and keys whose calls are told without them.
 */
export function postHandler(deps: PostDeps): UnaryHandlers<typeof AuthQuotaService>["post"] {
  return async (request) => {
    check(request);
    const { accounts, keys, calls } = request;
    const sums: HotOperation[] = [
      ...(await readMissingSums(deps, request)),
      ...accounts.map(({ accountId, balanceNanos, spentNanos, version }) =>
        writeBalance(accountId, { nanos: balanceNanos, spentNanos, version }, unasked),
      ),
      ...keys.map((row) => writeSpending(row.keyId, { nanos: row.spentNanos, version: row.version }, unasked)),
    ];
    const posts = calls.map(({ rid, bookedNanos, isFinal }): HotOperation => [
      "post",
      rid,
      bookedText(bookedNanos),
      isFinal ? "1" : "0",
    ]);
    faultPoint("auth-quota: told what is booked, nothing of it taken over");
    for (const chunk of chunks([...sums, ...posts])) {
      const answers = await whenRedisAnswers(deps.hot.apply("", chunk));
      answers.forEach(({ code }, index) => {
        if (code === Verdict.CONFLICT) report(deps, chunk[index]);
      });
    }
    return {};
  };
}

function report({ metrics, log }: PostDeps, operation: HotOperation | undefined): void {
  const rid = String(operation?.[1] ?? "");
  metrics.conflict("post", "ledger");
  log.error({ rid }, "ledger booked a call differently from its settlement");
}

function* chunks<T>(items: T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += chunkSize) yield items.slice(at, at + chunkSize);
}

/**
 * Sums that must come with the calls and did not. Asked for after billing has committed the calls, and not shared with
 * a question that may have been asked before that.
 */
async function readMissingSums(
  { billing, hot }: PostDeps,
  { accounts, keys, calls }: PostRequest,
): Promise<HotOperation[]> {
  const accountIds = missingFrom(
    accounts.map((row) => row.accountId),
    calls.map((call) => call.accountId),
  );
  const keyIds = missingFrom(
    keys.map((row) => row.keyId),
    calls.map((call) => call.keyId),
  );
  const operations: HotOperation[] = [];
  for (let at = 0; at < Math.max(accountIds.length, keyIds.length); at += fundsPerCall) {
    const end = at + fundsPerCall;
    const found = await readFunds(billing, hot.generation(), [accountIds.slice(at, end), keyIds.slice(at, end)]);
    operations.push(...found.accounts.values(), ...found.keys.values());
  }
  return operations;
}

function missingFrom(told: string[], needed: string[]): string[] {
  const known = new Set(told);
  return [...new Set(needed)].filter((id) => !known.has(id));
}

// By-hand corrections can leave a call with less than nothing booked; for what is still owed that is nothing.
function bookedText(nanos: bigint): string {
  const booked = nanos > maxAccountNanos ? maxAccountNanos : nanos;
  return String(booked < 0n ? 0n : booked);
}

function check({ accounts, keys, calls }: PostRequest): void {
  const isVersion = (version: bigint): boolean => version >= 0n && version <= BigInt(Number.MAX_SAFE_INTEGER);
  for (const { accountId, version } of accounts) {
    checkId("accounts.account_id", accountId);
    if (!isVersion(version)) refuse("accounts.version must be 0 or more");
  }
  for (const { keyId, version } of keys) {
    checkId("keys.key_id", keyId);
    if (!isVersion(version)) refuse("keys.version must be 0 or more");
  }
  for (const { rid, accountId, keyId } of calls) {
    if (ridTimeMs(rid) === undefined) refuse("calls.rid must be a UUIDv7");
    checkId("calls.account_id", accountId);
    checkId("calls.key_id", keyId);
  }
}
