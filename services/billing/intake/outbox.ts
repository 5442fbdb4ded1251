import { hash as digest } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import { jetstream } from "@nats-io/jetstream";
import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { encodeUsageBatch, usageHeaders, usageSubject } from "#shared/stores/usage-stream.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { isId } from "../records/check.ts";
import type { Metrics } from "../metrics.ts";
import type { NatsLink } from "./nats.ts";
import { decide } from "../records/plan.ts";
import type { Proofs } from "../records/proofs.ts";
import { readEvent, rejectEvent, type ReadEvent, type Reject } from "../records/read-event.ts";
import { readAccounts, readKeys } from "../store/funds.ts";
import { readByHandSums } from "../store/lines.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readBookedCalls } from "../store/post.ts";
import { findQuarantined, insertQuarantine } from "../store/quarantine.ts";
import { callUpdateOf, type BalancePusher, type CallUpdate } from "./push-balances.ts";

export type OutboxDeps = {
  authQuota: Pick<UnaryClient<typeof AuthQuotaService>, "listUnposted">;
  pool: Pool;
  nats: NatsLink;
  pusher: BalancePusher;
  proofs: Proofs;
  metrics: Metrics;
  clock: Clock;
  log: Logger;
  /** Younger charges are still on their way. */
  ageMs: number;
};

const recordsPerPass = 1_000;
const recordsPerMessage = 256;
const bytesPerMessage = 512 * 1024;
// Republishing at every pass would bury the stream in duplicates while billing lags behind.
const republishAfterMs = [30_000, 120_000, 600_000];

/**
 * Creates the pass over the charges that auth-quota holds unconfirmed: booked ones are pushed again, the others are
 * republished to the stream and reach the ledger as usual. What fails is left to the next pass: auth-quota keeps each
 * record until it learns that it is booked.
 */
export function createOutboxPass(deps: OutboxDeps): () => Promise<void> {
  const backoff = createBackoff();
  return async () => {
    const { records } = await deps.authQuota.listUnposted({ minAgeMs: BigInt(deps.ageMs), limit: recordsPerPass });
    const found = await sort(deps, records);
    await pushBooked(deps, found.updates);
    await republish(deps, found.missing, backoff);
  };
}

type SortedEvents = { updates: CallUpdate[]; missing: ReadEvent[] };

async function sort(deps: OutboxDeps, records: readonly Uint8Array[]): Promise<SortedEvents> {
  const nowMs = deps.clock.nowMs();
  const isProven = deps.proofs(nowMs);
  const read = records.map((bytes) => readEvent(bytes, undefined, nowMs, isProven));
  const rejects = read.filter((result): result is Reject => "reason" in result);
  const events = read.filter((result): result is ReadEvent => !("reason" in result));
  const booked = await readBookedCalls(deps.pool, events);
  const updates: CallUpdate[] = [];
  const missing: ReadEvent[] = [];
  for (const event of events) {
    const { rid, isLeased } = event.event;
    const call = booked.get(rid);
    const step = decide(event, call);
    const isConflict = typeof step === "object" && "reason" in step;
    if (isConflict) rejects.push(rejectEvent(event, step));
    if (call && (call.final || step === "duplicate")) updates.push(callUpdateOf(rid, { ...call, isLeased }));
    else if (!isConflict) missing.push(event);
  }
  const bookedRids = new Set(updates.map(({ rid }) => rid));
  const kept = await quarantine(deps, rejects);
  const hashes = await findQuarantined(
    deps.pool,
    missing.map(({ hash }) => hash),
  );
  for (const event of missing) if (isIn(hashes, event)) kept.push(rejectEvent(event, keptBefore));
  updates.push(
    ...(await findBookedByHand(
      deps,
      kept.filter(({ rid }) => rid === undefined || !bookedRids.has(rid)),
    )),
  );
  return { updates, missing: missing.filter((event) => !isIn(hashes, event)) };
}

const keptBefore = { reason: "refused_by_database", detail: "in quarantine" } as const;

function isIn(hashes: Set<string>, { hash }: { hash: string }): boolean {
  return hashes.has(hash);
}

async function quarantine({ pool, metrics, log }: OutboxDeps, rejects: Reject[]): Promise<Reject[]> {
  for (const { reason, detail, rid } of await insertQuarantine(pool, rejects)) {
    metrics.quarantined.inc({ reason });
    log.error({ rid, reason, detail }, "unconfirmed charge quarantined");
  }
  return [...rejects];
}

// A quarantined charge stays held against its account until it is booked by hand, as a correction with its rid.
async function findBookedByHand({ pool }: OutboxDeps, kept: readonly Reject[]): Promise<CallUpdate[]> {
  const byHand = await readByHandSums(
    pool,
    kept.flatMap(({ rid }) => rid ?? []),
  );
  const told: CallUpdate[] = [];
  for (const { rid, payload } of kept) {
    const amountNanos = rid === undefined ? undefined : byHand.get(rid);
    if (rid === undefined || amountNanos === undefined) continue;
    const { accountId, keyId, isLeased } = fromBinary(UsageRecordedSchema, payload);
    if (!isId(accountId) || !isId(keyId)) continue;
    told.push({ rid, accountId, keyId, bookedNanos: amountNanos < 0n ? -amountNanos : 0n, isFinal: true, isLeased });
  }
  return told;
}

async function pushBooked({ pool, pusher }: OutboxDeps, calls: CallUpdate[]): Promise<void> {
  if (calls.length === 0) return;
  // Read after the calls, so that the balances are at least as new as the lines they contain.
  const accounts = await readAccounts(pool, [...new Set(calls.map(({ accountId }) => accountId))]);
  const keys = await readKeys(pool, [...new Set(calls.map(({ keyId }) => keyId))]);
  await pusher.push({ accounts, keys, calls });
}

async function republish(deps: OutboxDeps, missing: readonly ReadEvent[], backoff: Backoff): Promise<void> {
  const due = missing.filter(backoff.isDue);
  const connection = deps.nats.current();
  if (due.length === 0 || !connection) return;
  const stream = jetstream(connection);
  for (const part of partsOf(due)) {
    const payload = encodeUsageBatch(part.map(({ bytes }) => bytes));
    const id = `outbox:${digest("sha256", payload, "hex")}`;
    const headers = usageHeaders("billing", id, newestTimeMs(part));
    // Waits for the acknowledgement; a failure ends the pass, and the rest is due again at the next.
    await stream.publish(usageSubject, payload, { msgID: id, headers, timeout: 5_000 });
    faultPoint("billing: charge published again, not noted");
    backoff.tried(part);
    deps.metrics.republished.inc(part.length);
    for (const { event } of part) deps.log.warn({ rid: event.rid }, "unconfirmed charge republished");
  }
}

// Of the events and not of now: the same ones under the same id are the same message.
function newestTimeMs(events: readonly ReadEvent[]): number {
  return Math.max(...events.map(({ event }) => ridTimeMs(event.rid) ?? 0));
}

function partsOf(events: readonly ReadEvent[]): ReadEvent[][] {
  const parts: ReadEvent[][] = [];
  let bytes = bytesPerMessage;
  for (const event of events) {
    const last = parts.at(-1);
    bytes += event.bytes.length;
    if (last && last.length < recordsPerMessage && bytes <= bytesPerMessage) {
      last.push(event);
    } else {
      parts.push([event]);
      bytes = event.bytes.length;
    }
  }
  return parts;
}

type Backoff = { isDue: (event: ReadEvent) => boolean; tried: (events: readonly ReadEvent[]) => void };

const rememberedTries = 100_000;

function createBackoff(): Backoff {
  const tries = new Map<string, { count: number; dueMs: number }>();
  return {
    isDue: ({ hash }) => (tries.get(hash)?.dueMs ?? 0) <= performance.now(),
    tried: (events) => {
      for (const { hash } of events) {
        const count = tries.get(hash)?.count ?? 0;
        const waitMs = republishAfterMs[Math.min(count, republishAfterMs.length - 1)] ?? 0;
        tries.delete(hash);
        tries.set(hash, { count: count + 1, dueMs: performance.now() + waitMs });
      }
      // The oldest first: whatever was tried longest ago is either booked or due again.
      for (const [hash] of tries) if (tries.size > rememberedTries) tries.delete(hash);
    },
  };
}
