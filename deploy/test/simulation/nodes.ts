import { createHash } from "node:crypto";
import { v7 } from "uuid";
import { createLog } from "#shared/process/log.ts";
import { startAuthQuota } from "./auth-quota.ts";
import { startBilling } from "./billing.ts";
import type { AuthQuotaService, BillingClient } from "./neighbours.ts";
import { priceOf, type Truth } from "./caller.ts";
import { createProcess, enter, isOver, kill } from "./clock.ts";
import { checkConfirmed } from "./invariants.ts";
import { checkLeased, heartbeatMs } from "./lease-rules.ts";
import { createKeyDatabase } from "./key-database.ts";
import { callService, later } from "./network.ts";
import { quiet } from "./profile.ts";
import { startRelay, type RelayDeps } from "./relay.ts";
import type { AuthQuotaRunning, BillingRunning, RelayNode, RunningNode, World } from "./world.ts";

const log = createLog("simulation", "silent");

/** Ends the process of a place as kill -9 does. */
export function killPlace(world: World, place: RunningNode): void {
  world.note(`kill ${place.name}`);
  if (place.kind === "relay") {
    const { disk, process: killed } = place as RelayNode;
    // What the disk refused is in memory only, and gone with it: a record, or the last checkpoint of a call.
    if (disk.hasRefused) loseDisk(world, (truth) => truth.process === killed);
    disk.hasRefused = false;
    (place as RelayNode).relay = undefined;
  }
  kill(place.process);
  const { name } = place;
  later(() => world.lines.breakWhere(({ relay, authQuota }) => relay === name || authQuota === name), 20);
}

/** Notes that what calls left on a disk is gone. */
export function loseDisk(world: World, isOn: (truth: Truth) => boolean): void {
  for (const truth of world.truths.values()) if (isOn(truth)) truth.isDiskLost = true;
}

/** Starts a process at a place, unless one runs there. */
export function startPlace(world: World, place: RunningNode): void {
  if (place.starts > 0 && !isOver(place.process)) return;
  place.starts += 1;
  place.process = createProcess(place.name);
  world.note(`start ${place.name}`);
  enter(place.process, () => starters[place.kind](world, place));
}

/** Bytes that no other lease of a world has. */
const leaseBytes = ({ name, starts }: RunningNode, asked: number): Uint8Array =>
  createHash("sha256").update(`${name} ${starts} ${asked}`).digest().subarray(0, 16);

const starters: Record<RunningNode["kind"], (world: World, place: RunningNode) => void> = {
  relay: (world, running) => {
    const place = running as RelayNode;
    const { name, disk, process: at } = place;
    const relaySession = `${name}-${place.starts}`;
    const channel = world.lines.channelOf(place);
    const onConfirm = (rid: string): void => checkConfirmed(world, rid);
    const onCheckpoint = (rid: string): void => {
      const truth = world.truths.get(rid);
      truth?.checkpoints.add(priceOf(truth));
    };
    const onAccepted = (rid: string, nanos: bigint): void => {
      const truth = world.truths.get(rid);
      if (truth && nanos > truth.acceptedNanos) truth.acceptedNanos = nanos;
    };
    const onCharge = (): void => {
      const strike = place.onCharge;
      place.onCharge = undefined;
      strike?.();
    };
    const onLeased: RelayDeps["onLeased"] = ({ rid, leaseRid, heldNanos }) => {
      world.leasedCalls += 1;
      const truth = world.truths.get(rid);
      if (!truth) return;
      truth.leaseRid = leaseRid;
      truth.heldNanos = heldNanos;
      checkLeased(world, truth);
      world.onAdmitted(truth.payer);
    };
    let leasesAsked = 0;
    const leaseRid = world.hasLeases
      ? (): string =>
          v7({ msecs: Date.now() + place.clockAheadMs, seq: 0, random: leaseBytes(place, (leasesAsked += 1)) })
      : undefined;
    const onRecalled = (): void => void (world.recalledLeases += 1);
    const heartbeat = world.hasLeases && world.profile.name === quiet ? heartbeatMs : undefined;
    const told = {
      leaseRid,
      heartbeatMs: heartbeat,
      onLeased,
      onRecalled,
      onCharge,
      onConfirm,
      onCheckpoint,
      onAccepted,
    };
    void startRelay({ name, relaySession, channel, stream: world.stream, disk, log, ...told }).then(
      (relay) => {
        if (place.process === at) place.relay = relay;
      },
      // A disk that takes no writes: the process ends, and is started again.
      () => {
        kill(at);
        later(() => startPlace(world, place), 1_000);
      },
    );
  },
  "auth-quota": (world, running) => {
    const place = running as AuthQuotaRunning;
    const { name } = place;
    const { network, redises, ledger, payers, billings } = world;
    const database = createKeyDatabase({ ledger, network, from: name }, payers);
    const ask = <T>(work: (service: BillingClient) => Promise<T>): Promise<T> => {
      const to = network.random.pick(billings);
      return callService({ network, from: name, to }, () => work(serviceOf(to)));
    };
    const billing: BillingClient = {
      getFunds: (request) => ask((service) => service.getFunds(request)),
      getProgress: (request) => ask((service) => service.getProgress(request)),
    };
    const times = { relaySilentMs: world.relaySilentMs, rebuildMs: 10_000 };
    place.service = startAuthQuota({ name, network, redises, database, billing, log, ...times });
    place.serve = place.service.serve;
  },
  billing: (world, running) => {
    const place = running as BillingRunning;
    const { name } = place;
    const { network, ledger, stream, authQuotas } = world;
    const ask = <T>(work: (service: AuthQuotaService) => Promise<T>): Promise<T> => {
      const to = network.random.pick(authQuotas);
      return callService({ network, from: name, to }, () => work(serviceOf(to)));
    };
    const authQuota: Pick<AuthQuotaService, "post" | "listUnposted"> = {
      post: (request) => ask((service) => service.post(request)),
      listUnposted: (request) => ask((service) => service.listUnposted(request)),
    };
    place.service = startBilling({ name, network, ledger, stream, authQuota, outboxAgeMs: world.outboxAgeMs, log });
  },
};

function serviceOf<S>({ service }: { service: S | undefined }): S {
  if (!service) throw new Error("not started");
  return service;
}
