import type { JetStreamClient } from "@nats-io/jetstream";
import type { Client } from "@grpc/grpc-js";
import { Registry } from "prom-client";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { guardLive } from "../../../services/relay/stream/guard.ts";
import type { LiveCall } from "../../../services/relay/live-call.ts";
import { createMetrics } from "../../../services/relay/metrics.ts";
import { createPublisher } from "../../../services/relay/charge/publish.ts";
import { defaultLimits, openQuotaSession, type QuotaSession } from "../../../services/relay/charge/quota-session.ts";
import { createLeases, type Leases } from "../../../services/relay/charge/leases.ts";
import { createRestore } from "../../../services/relay/charge/restore.ts";
import { replaySpool } from "../../../services/relay/charge/replay-spool.ts";
import { confirmBooked, ridOfRecord, type SettlementDeps } from "../../../services/relay/charge/settle.ts";
import { openSpool, type Spool } from "../../../services/relay/charge/spool.ts";
import { filesOn, type Disk } from "./disk.ts";
import type { UsageStream } from "./stream.ts";

/** A running relay process, as far as the path of the money goes. */
export type Relay = {
  settling: SettlementDeps;
  quota: QuotaSession;
  leases: Leases | undefined;
  live: Set<LiveCall>;
};

export type RelayDeps = {
  name: string;
  relaySession: string;
  channel: Client;
  stream: UsageStream;
  disk: Disk;
  log: Logger;
  /** Told of each charge that was written into the spool. */
  onCharge: () => void;
  /** Told of each record that the spool lets go of. */
  onConfirm: (rid: string) => void;
  /** Told whenever the relay writes down, or tells, what a running call has cost so far. */
  onCheckpoint: (rid: string) => void;
  /** Told of each sum that auth-quota has taken. */
  onAccepted: (rid: string, nanos: bigint) => void;
  /** Told of each call that is admitted within a lease. */
  onLeased: (call: { rid: string; leaseRid: string; heldNanos: bigint }) => void;
  onRecalled: () => void;
  /** Makes the ids of leases; undefined: each call is admitted by auth-quota. */
  leaseRid: (() => string) | undefined;
  /** Undefined: rarer than in the product, which hears of a maintenance with them; each is a run of the script. */
  heartbeatMs: number | undefined;
};

const watched = (leases: Leases, { onLeased }: Pick<RelayDeps, "onLeased">): Leases => ({
  ...leases,
  admit: (wanted) => {
    const hold = leases.admit(wanted);
    if (hold?.leased) onLeased({ rid: wanted.rid, leaseRid: hold.leased.lease.rid, heldNanos: wanted.estimateNanos });
    return hold;
  },
});

const metrics = createMetrics(new Registry());
const rareHeartbeatMs = 5_000;
const spoolLimits = { segmentBytes: 2_000, maxBytes: 1_000_000, keptSegments: 3, syncMs: 1_000 };

/** Wires one process as the service's main.ts does, with the product's own parts. */
export async function startRelay(parts: RelayDeps): Promise<Relay> {
  const { name, relaySession, channel, stream, log } = parts;
  const files = filesOn(parts.disk);
  const opened = await openSpool("spool", relaySession, { log, ridOf: ridOfRecord, limits: spoolLimits, files });
  const spool: Spool = {
    ...opened,
    append: (rid, record, hash) => {
      opened.append(rid, record, hash);
      parts.onCharge();
    },
    checkpoint: (rid, record) => {
      parts.onCheckpoint(rid);
      opened.checkpoint(rid, record);
    },
    confirm: (rid) => {
      parts.onConfirm(rid);
      opened.confirm(rid);
    },
  };
  const limits = { ...defaultLimits, heartbeatMs: parts.heartbeatMs ?? rareHeartbeatMs };
  const session = openQuotaSession(channel, relaySession, log, limits);
  const quota: QuotaSession = {
    ...session,
    tell: async (told) => {
      const { operation } = told;
      const isCheckpoint = operation?.case === "checkpoint" || operation?.case === "restore";
      if (isCheckpoint) parts.onCheckpoint(operation.value.rid ?? "");
      const result = await session.tell(told);
      const { rid = "", costNanos = 0n } = isCheckpoint ? operation.value : {};
      if (isCheckpoint && result.verdict === Verdict.OK) parts.onAccepted(rid, costNanos);
      return result;
    },
  };
  const client = {
    publish: (_subject: string, data: Uint8Array, options: { msgID: string; timeout: number }) =>
      stream.publish(name, data, options),
  } as unknown as JetStreamClient;
  const counts = { published: () => undefined, failed: () => undefined, dropped: () => undefined };
  const publisher = createPublisher(() => (stream.isDown ? undefined : client), relaySession, counts, log);
  const live = new Set<LiveCall>();
  let sequence = 0n;
  const nextSequence = (): bigint => sequence++;
  const settling: SettlementDeps = {
    relaySession,
    spool,
    quota,
    publisher,
    metrics,
    log,
    nextSequence,
    refused: new Set(),
    onBooked: () => undefined,
    watch: { lookedAtMs: Date.now(), look: () => guardLive(settling, live) },
  };
  const leaseCounts = { admitted: () => undefined, recalled: parts.onRecalled };
  const { leaseRid: makeRid } = parts;
  // Few calls are made here: leases come for less, and are kept for longer.
  const leases =
    makeRid && watched(createLeases(quota, leaseCounts, { leastPerSecond: 0.3, idleMs: 8_000, makeRid }), parts);
  if (leases) every(500, async () => leases.sweep(), log);
  void replaySpool(settling);
  every(2_000, async () => void (await confirmBooked(settling)), log);
  every(500, createRestore(settling, live), log);
  every(1_000, async () => guardLive(settling, live), log);
  return { settling, quota, leases, live };
}
