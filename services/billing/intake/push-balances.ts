import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import type { Metrics } from "../metrics.ts";
import type { BookedCall } from "../records/plan.ts";
import {
  markKeysPushed,
  markPushed,
  readUnpushedAccounts,
  readUnpushedKeys,
  type AccountRow,
  type AccountVersion,
  type KeyRow,
} from "../store/funds.ts";
import type { Pool } from "#shared/stores/postgres.ts";

/** Committed state to push to auth-quota: absolute amounts with versions, so that any order works. */
export type Posting = { accounts: AccountRow[]; keys: KeyRow[]; calls: CallUpdate[] };

/** The total booked for a call. */
export type CallUpdate = {
  rid: string;
  accountId: string;
  keyId: string;
  bookedNanos: bigint;
  isFinal: boolean;
  isLeased: boolean;
};

/** The update to push for a call that has lines. */
export function callUpdateOf(rid: string, call: BookedCall): CallUpdate {
  const { accountId, keyId, chargedNanos, final, isLeased = false } = call;
  return { rid, accountId, keyId, bookedNanos: chargedNanos, isFinal: final !== undefined, isLeased };
}

export type BalancePusher = {
  /** Pushes to auth-quota; false when that fails. Never rejects. */
  push: (posting: Posting) => Promise<boolean>;
  /** Pushes every account whose latest balance is not confirmed, and keys marked as unpushed. */
  repair: (pool: Pool) => Promise<void>;
};

/** Accounts of which auth-quota has a newer balance than it was pushed, with its version. */
export type NewerBalances = { note: (newer: readonly AccountVersion[]) => void; take: () => AccountVersion[] };

const mostNewer = 100;

/** Remembers some of those that were noted last, until they are taken. */
export function createNewerBalances(): NewerBalances {
  let noted: AccountVersion[] = [];
  return {
    note: (newer) => {
      if (newer.length > 0) noted = [...noted, ...newer].slice(-mostNewer);
    },
    take: () => {
      const taken = noted;
      noted = [];
      return taken;
    },
  };
}

type PostClient = Pick<UnaryClient<typeof AuthQuotaService>, "post">;

const repairedAtOnce = 500;
// Under load, accounts change while they are repaired; a pass must still end.
const maxRepairRounds = 20;

/**
 * Pushes the ledger's state to auth-quota. Every push is best effort: a call that was not pushed stays in auth-quota's
 * outbox, an account keeps a version above its pushed one, and both are pushed again later.
 */
export function createBalancePusher({
  authQuota,
  metrics,
  log,
  newer,
}: {
  authQuota: PostClient;
  metrics: Metrics;
  log: Logger;
  newer?: Pick<NewerBalances, "note">;
}): BalancePusher {
  // Stored by `repair` for many accounts at once: a write per batch would double the writes to the account's row.
  const confirmed = new Map<string, bigint>();
  const push = async (posting: Posting): Promise<boolean> => {
    try {
      const answer = await authQuota.post(toRequest(posting));
      newer?.note(answer.newer);
    } catch (error) {
      metrics.postFailures.inc();
      log.warn({ err: error, calls: posting.calls.length }, "failed to push bookings to auth-quota");
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
    const keys = await readUnpushedKeys(pool, repairedAtOnce);
    if (keys.length > 0 && (await push({ accounts: [], keys, calls: [] }))) await markKeysPushed(pool, keys);
  };
  return {
    push,
    repair: async (pool) => {
      await writeConfirmed(pool);
      await repairKeys(pool);
      for (let round = 0; round < maxRepairRounds; round += 1) {
        const accounts = await readUnpushedAccounts(pool, repairedAtOnce);
        if (accounts.length === 0 || !(await push({ accounts, keys: [], calls: [] }))) return;
        await writeConfirmed(pool);
        if (accounts.length < repairedAtOnce) return;
      }
    },
  };
}

function toRequest({ accounts, keys, calls }: Posting): Parameters<PostClient["post"]>[0] {
  return {
    accounts: accounts.map(({ accountId, balanceNanos, spentNanos, version }) => ({
      accountId,
      balanceNanos,
      spentNanos,
      version,
    })),
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
