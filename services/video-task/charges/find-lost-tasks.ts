import { fromBinary } from "@bufbuild/protobuf";
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { BillingService, VideoCharge } from "#proto/billing/v1/billing_pb.ts";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { inTransaction, type Pool } from "#shared/stores/postgres.ts";
import type { Metrics } from "../metrics.ts";
import { insertLost, lockChecked, writeChecked, type ChargedTask } from "../store/lost-tasks.ts";

export type LostTaskDeps = {
  pool: Pool;
  billing: Pick<UnaryClient<typeof BillingService>, "listVideoCharges">;
  metrics: Pick<Metrics, "lostTasks">;
  log: Logger;
};

const chargesAtOnce = 500;

/**
 * Creates the pass that finds charges whose task is unknown here: PostgreSQL was put back to a time before their
 * acceptance, and nobody can fetch these videos. Each becomes a failed task and is refunded, once. Rejects when
 * PostgreSQL or billing cannot be reached; the next pass goes on.
 */
export function createLostTaskPass(deps: LostTaskDeps): () => Promise<void> {
  return async () => {
    while (await checkSome(deps));
  };
}

/** Whether there may be more. */
async function checkSome({ pool, billing, metrics, log }: LostTaskDeps): Promise<boolean> {
  const { lost, hasMore } = await inTransaction(pool, async (db) => {
    const afterLineId = await lockChecked(db);
    if (afterLineId === undefined) return { lost: [], hasMore: false };
    const listed = await billing.listVideoCharges({ afterLineId, limit: chargesAtOnce });
    const charged = listed.charges.map(taskOf);
    const rids = new Set(await insertLost(db, charged));
    if (listed.untilLineId !== afterLineId) await writeChecked(db, listed.untilLineId);
    return { lost: charged.filter(({ rid }) => rids.has(rid)), hasMore: listed.hasMore };
  });
  for (const { rid, accountId: account, upstream, costNanos, isPaid } of lost) {
    metrics.lostTasks.inc();
    const about = { rid, account, upstream, costNanos: String(costNanos), isPaid };
    log.error(about, "a video was charged whose task is lost: it has failed and is refunded");
  }
  return hasMore;
}

const dateOf = (time: Timestamp | undefined): Date => (time ? timestampDate(time) : new Date());

function taskOf({ record, refundedNanos }: VideoCharge): ChargedTask {
  const event = fromBinary(UsageRecordedSchema, record);
  const { rid, accountId, modelRequested: model, upstream, costNanos, usage } = event;
  return {
    rid,
    accountId,
    model,
    // What is charged by the request does not tell the length.
    seconds: Math.max(1, Math.round(Number(usage?.mediaMs ?? 0n) / 1_000)),
    createdAt: dateOf(event.startedAt),
    acceptedAt: dateOf(event.endedAt),
    upstream,
    costNanos,
    isPaid: costNanos > refundedNanos,
    charge: record,
  };
}
