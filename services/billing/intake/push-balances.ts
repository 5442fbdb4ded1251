import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import type { Metrics } from "../metrics.ts";
import type { BookedCall } from "../records/plan.ts";
import {
  markKeysTold,
  markPushed,
  readUnpushedAccounts,
  readUntoldKeys,
  type AccountRow,
  type KeyRow,
} from "../store/funds.ts";
import type { Pool } from "#shared/stores/postgres.ts";

/** What is committed and auth-quota should know: absolute amounts with their versions, so that any order will do. */
export type Posting = { accounts: AccountRow[]; keys: KeyRow[]; calls: ToldCall[] };

/** What is booked of a call, in all. */
export type ToldCall = { rid: string; accountId: string; keyId: string; bookedNanos: bigint; isFinal: boolean };

/** What auth-quota is told of a call that has lines. */
export function toldOf(rid: string, { accountId, keyId, chargedNanos, final }: BookedCall): ToldCall {
  return { rid, accountId, keyId, bookedNanos: chargedNanos, isFinal: final !== undefined };
}

export type Teller = {
  /** Tells auth-quota; false when it could not be told. Never throws. */
  tell: (posting: Posting) => Promise<boolean>;
  /** Tells it of every account whose latest balance it has not confirmed, and of keys that are marked as untold. */
  repair: (pool: Pool) => Promise<void>;
};

type Told = Pick<UnaryClient<typeof AuthQuotaService>, "post">;

const repairedAtOnce = 500;
// Under load accounts change while they are repaired: a pass must still end.
const maxRepairRounds = 20;

/**
 * Makes the way from the ledger to auth-quota. Every telling is best effort: a call that was not told stays in
 * auth-quota's outbox, an account keeps a version above its pushed one, and both are told again later.
 */
export function createTeller({ authQuota, metrics, log }: { authQuota: Told; metrics: Metrics; log: Logger }): Teller {
  // Written down by `repair` for many at once: a write per batch would double the writes to the account's row.
  const confirmed = new Map<string, bigint>();
  const tell = async (posting: Posting): Promise<boolean> => {
    try {
      await authQuota.post(toRequest(posting));
    } catch (error) {
      metrics.postFailures.inc();
      log.warn({ err: error, calls: posting.calls.length }, "auth-quota could not be told what is booked");
      return false;
    }
    for (const { accountId, version } of posting.accounts) {
      if (version > (confirmed.get(accountId) ?? -1n)) confirmed.set(accountId, version);
    }
    return true;
  };
  const writeConfirmed = async (pool: Pool): Promise<void> => {
    const versions = new Map(confirmed);
    await markPushed(pool, versions);
    for (const [id, version] of versions) if (confirmed.get(id) === version) confirmed.delete(id);
  };
  const repairKeys = async (pool: Pool): Promise<void> => {
    const keys = await readUntoldKeys(pool, repairedAtOnce);
    if (keys.length > 0 && (await tell({ accounts: [], keys, calls: [] }))) await markKeysTold(pool, keys);
  };
  return {
    tell,
    repair: async (pool) => {
      await writeConfirmed(pool);
      await repairKeys(pool);
      for (let round = 0; round < maxRepairRounds; round += 1) {
        const accounts = await readUnpushedAccounts(pool, repairedAtOnce);
        if (accounts.length === 0 || !(await tell({ accounts, keys: [], calls: [] }))) return;
        await writeConfirmed(pool);
        if (accounts.length < repairedAtOnce) return;
      }
    },
  };
}

function toRequest({ accounts, keys, calls }: Posting): Parameters<Told["post"]>[0] {
  return {
    accounts: accounts.map(({ accountId, balanceNanos, version }) => ({ accountId, balanceNanos, version })),
    keys: keys.map(({ keyId, accountId, spentNanos, version }) => ({
      keyId,
      accountId,
      // A key's total may outgrow what auth-quota's store counts exactly; no limit is above that, so it says enough.
      spentNanos: spentNanos > maxAccountNanos ? maxAccountNanos : spentNanos,
      version,
    })),
    calls,
  };
}
