import { jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { formatUsd } from "#shared/money/money.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { fundsStream, usageStream } from "#shared/stores/usage-stream.ts";
import type { Metrics } from "../metrics.ts";
import {
  claimEpoch,
  closeEpoch,
  createAccounts,
  findLoss,
  findOlder,
  openEpoch,
  releaseEpoch,
  readEpoch,
  type LedgerLoss,
  type OpenEpoch,
  type StreamMark,
} from "../store/ledger-epoch.ts";
import type { LedgerDays } from "../store/days.ts";
import { forgetPrices } from "../store/prices.ts";
import { endOfFunds, findLostFunds } from "./find-lost-funds.ts";
import type { NatsLink } from "./nats.ts";
import type { BalancePusher, NewerBalances } from "./push-balances.ts";
import type { AccountVersion } from "../store/funds.ts";
import { consumerName, isMissing } from "./stream.ts";

/** What reading the stream again has found. */
export type ReplayTotals = { events: bigint; missing: bigint; missingNanos: bigint; rejected: bigint };

export type LedgerRepairDeps = {
  pool: Pool;
  nats: NatsLink;
  pusher: BalancePusher;
  /** What auth-quota knows newer than it was pushed. */
  newer: Pick<NewerBalances, "take">;
  authQuota: Pick<UnaryClient<typeof AuthQuotaService>, "listAccounts">;
  /** Books what the ledger lacks of what the stream has taken from this time on, in milliseconds since 1970. */
  replayFrom: (fromMs: number | undefined) => Promise<ReplayTotals>;
  /** The same for lines by hand. Returns how many. */
  rebookFundsFrom: (fromMs: number | undefined) => Promise<number>;
  days: Pick<LedgerDays, "forget">;
  metrics: Metrics;
  log: Logger;
};

export type LedgerRepair = {
  /** The stream that is read now, and how far this process knows it to be booked; undefined before the first. */
  mark: () => StreamMark | undefined;
  /** Says which stream is read, and up to where it was acknowledged, which only booked messages are. */
  readsFrom: (mark: StreamMark) => void;
  /** Says that a batch up to this sequence is committed. */
  hasBooked: (sequence: bigint) => void;
  /** Begins a new epoch of a ledger that has lost bookings. */
  open: (loss: LedgerLoss) => Promise<void>;
  /** Looks for a loss also where nothing is booked, and books again what a new epoch lacks. */
  pass: () => Promise<void>;
};

// Batches are committed side by side: what was lost may lie before the last message that is booked, but not long.
const overlapMs = 3_600_000;
const accountsPerPage = 500;

/**
 * Keeps a ledger right that is promoted behind its stream, or restored from a backup. The stream knows what was booked
 * (its acknowledgements), the ledger how far it is booked; where the two differ, or the ledger is on another server,
 * bookings are lost: they are booked again from the stream, and every balance goes to auth-quota with a newer version
 * than any before.
 */
export function createLedgerRepair(deps: LedgerRepairDeps): LedgerRepair {
  let mark: StreamMark | undefined;
  const advance = (to: bigint): void => {
    if (mark && to > mark.sequence) mark = { ...mark, sequence: to };
  };
  let epoch: number | undefined;
  // What this process remembers of the tables was true of those of the epoch before.
  const lookAtEpoch = async (): Promise<void> => {
    const found = await readEpoch(deps.pool);
    deps.metrics.ledgerEpoch.set(found);
    if (epoch !== undefined && found !== epoch) {
      deps.days.forget();
      forgetPrices(deps.pool);
    }
    epoch = found;
  };
  const open = async (loss: LedgerLoss, known = mark, newer: readonly AccountVersion[] = []): Promise<void> => {
    if (!mark || !known) return;
    const opened = await openEpoch(deps.pool, known, { ends: await endsOf(deps, mark), newer });
    if (!opened) return;
    await lookAtEpoch();
    deps.log.error({ ...loss, bookedUntil: `${loss.bookedUntil}` }, "ledger has lost bookings: booking them again");
  };
  const lookForLoss = async (manager: JetStreamManager, known: StreamMark): Promise<void> => {
    const loss = await findLoss(deps.pool, known);
    if (loss) return open(loss, known);
    const lost = await findLostFunds(deps.pool, manager);
    const lossOfFunds = lost && (await findLoss(deps.pool, lost));
    if (lossOfFunds) return open(lossOfFunds, lost);
    const newer = deps.newer.take();
    const older = await findOlder(deps.pool, known, newer);
    if (older) await open(older, known, newer);
  };
  return {
    mark: () => mark,
    readsFrom: (found) => {
      mark = mark?.stream === found.stream && mark.sequence > found.sequence ? mark : found;
    },
    hasBooked: advance,
    open: (loss) => open(loss),
    pass: async () => {
      const manager = await managerOf(deps.nats);
      if (!mark || !manager) return;
      advance(await acknowledgedOf(manager));
      await lookForLoss(manager, mark);
      await lookAtEpoch();
      const claimed = await claimEpoch(deps.pool);
      if (!claimed) return;
      try {
        await heal(deps, manager, claimed);
      } catch (error) {
        await releaseEpoch(deps.pool, claimed.epoch);
        throw error;
      }
    },
  };
}

async function managerOf(nats: NatsLink): Promise<JetStreamManager | undefined> {
  const connection = nats.current();
  // Asking for the account's limits, too, would cost a request each time.
  return connection && (await jetstreamManager(connection, { checkAPI: false }));
}

async function acknowledgedOf(manager: JetStreamManager): Promise<bigint> {
  try {
    return BigInt((await manager.consumers.info(usageStream, consumerName)).ack_floor.stream_seq);
  } catch (error) {
    if (isMissing(error)) return 0n;
    throw error;
  }
}

// Of the usage stream this process may have seen more than is left of it.
async function endsOf({ nats }: LedgerRepairDeps, { stream, sequence }: StreamMark): Promise<StreamMark[]> {
  const manager = await managerOf(nats);
  if (!manager) throw new Error("NATS is not connected");
  const last = BigInt((await manager.streams.info(usageStream)).state.last_seq);
  const funds = await endOfFunds(manager);
  return [{ stream, sequence: last > sequence ? last : sequence }, ...(funds ? [funds] : [])];
}

async function heal(deps: LedgerRepairDeps, manager: JetStreamManager, epoch: OpenEpoch): Promise<void> {
  const { pool, pusher, log } = deps;
  await knowAllAccounts(deps);
  const fromMs = await timeOf(manager, epoch);
  const sinceMs = fromMs && fromMs - overlapMs;
  const { events, missing, missingNanos, rejected } = await deps.replayFrom(sinceMs);
  // Behind the calls, which refunds are about.
  const byHand = await deps.rebookFundsFrom(sinceMs);
  await pusher.repair(pool);
  await closeEpoch(pool, epoch.epoch);
  deps.metrics.ledgerRebooked.inc(Number(missing) + byHand);
  const counts = { events: `${events}`, rebooked: `${missing}`, byHand, rejected: `${rejected}` };
  log.warn({ epoch: epoch.epoch, ...counts, usd: formatUsd(missingNanos) }, "lost bookings are booked again");
}

/** When its stream took the last message that was booked; undefined where it does not hold it any more. */
async function timeOf(manager: JetStreamManager, { stream, bookedUntil }: OpenEpoch): Promise<number | undefined> {
  if (bookedUntil === 0n) return undefined;
  const name = stream.startsWith(fundsStream) ? fundsStream : usageStream;
  const message = await manager.streams.getMessage(name, { seq: Number(bookedUntil) });
  return message?.time.getTime();
}

// An account of which the ledger has lost every line still has money in auth-quota, and nobody would correct it.
async function knowAllAccounts({ authQuota, pool }: LedgerRepairDeps): Promise<void> {
  let afterAccountId: string | undefined = "";
  while (afterAccountId !== undefined) {
    const { accounts } = await authQuota.listAccounts({ afterAccountId, limit: accountsPerPage });
    const ids = accounts.map(({ accountId }) => accountId);
    await createAccounts(pool, ids, "unpushed");
    afterAccountId = ids.length < accountsPerPage ? undefined : ids.at(-1);
  }
}
