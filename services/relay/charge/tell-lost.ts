import { fromBinary } from "@bufbuild/protobuf";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { RecordKind, UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Metrics } from "../metrics.ts";
import type { Publisher } from "./publish.ts";
import type { SpoolFile } from "./spool-files.ts";
import type { Spool } from "./spool.ts";

/** Some of the charges that were told to be booked since the last `take`, in their order, the newest among them. */
export type BookedSample = { note: (rid: string) => void; take: () => string[] };

const sampleSize = 16;

/**
 * Takes each nth, with an n that doubles: what is lost lies side by side, and may be in the middle of ten seconds. The
 * first ones alone would not have it.
 */
export function createBookedSample(): BookedSample {
  let rids: string[] = [];
  let step = 1;
  let noted = 0;
  let newest = "";
  return {
    note: (rid) => {
      newest = rid;
      if (noted++ % step > 0) return;
      rids.push(rid);
      // One place is the newest's.
      if (rids.length < sampleSize) return;
      rids = rids.filter((_, index) => index % 2 === 0);
      step *= 2;
    },
    take: () => {
      const taken = noted > 0 && rids.at(-1) !== newest ? [...rids, newest] : rids;
      [rids, step, noted] = [[], 1, 0];
      return taken;
    },
  };
}

export type TellLostDeps = {
  relaySession: string;
  bookedSample: Pick<BookedSample, "take">;
  /** How many final records this process has numbered. */
  numbered: () => bigint;
  spool: Pick<Spool, "files" | "recordsIn" | "oldestMs">;
  quota: Pick<UnaryClient<typeof AuthQuotaService>, "findLostCharges">;
  publisher: Pick<Publisher, "publish" | "drain" | "waiting">;
  metrics: Pick<Metrics, "lostCharges">;
  log: Logger;
};

/** All numbers of a relay process below `booked` were told to be booked. */
type Booked = { relaySession: string; booked: bigint };
type Lost = { relaySession: string; charges: bigint };

const drainMs = 5_000;
const recordsAtOnce = 256;
const mostRelays = 100;
// Of ten minutes, and fewer than may be asked about at once.
const samplesKept = 60;
// One alone may be a call whose provisional charge was the higher one, and stays.
const leastUnbooked = 2;
// What is in quarantine is missing here until a person has settled it.
const againMs = 600_000;

/**
 * Makes the look at whether the ledger still has what it had booked of this relay. Where it and the stream are put
 * back to earlier times, what was booked since is nowhere else than in the spool, which keeps the newest of what is
 * booked: it goes to the stream again. Rejects when billing or the stream goes away within.
 */
export function createTellLost(deps: TellLostDeps): () => Promise<void> {
  const { relaySession, bookedSample } = deps;
  const ownBooked = followOwn(deps);
  const formerBooked = followFormer(deps);
  let samples: string[][] = [];
  let told = { what: "", atMs: -Infinity };
  return async () => {
    const own = { relaySession, booked: ownBooked() };
    samples = [...samples, bookedSample.take()].filter(({ length }) => length > 0).slice(-samplesKept);
    const relays = [own, ...(await formerBooked())].filter(({ booked }) => booked > 0n).slice(0, mostRelays);
    if (relays.length === 0 && samples.length === 0) return;
    const lost = await findLost(deps, relays, samples.flat());
    const what = lost.map((one) => one.relaySession).join(", ");
    if (what === "" || (what === told.what && performance.now() - told.atMs < againMs)) return;
    await tellAgain(deps, lost);
    told = { what, atMs: performance.now() };
  };
}

/** Of which processes charges are lost; of none while billing is away, which others tell of. */
async function findLost({ relaySession, quota }: TellLostDeps, relays: Booked[], rids: string[]): Promise<Lost[]> {
  const found = await quota.findLostCharges({ relays, rids }).catch(() => undefined);
  if (!found) return [];
  const { lost, unbookedRids } = found;
  // While many calls end, as many are booked anew as were lost, and their number tells nothing.
  const isOwnLost = unbookedRids.length >= leastUnbooked && lost.every((one) => one.relaySession !== relaySession);
  return isOwnLost ? [...lost, { relaySession, charges: BigInt(unbookedRids.length) }] : lost;
}

/** Follows how far this process' own numbers are booked: up to those that it had when no older record was open. */
function followOwn({ numbered, spool }: TellLostDeps): () => bigint {
  let booked = 0n;
  let next = { atMs: performance.now(), numbers: 0n };
  return () => {
    const nowMs = performance.now();
    if (nowMs - spool.oldestMs() > next.atMs) {
      booked = next.numbers;
      next = { atMs: nowMs, numbers: numbered() };
    }
    return booked;
  };
}

/** The same of processes before, by the newest file that is kept of each. */
function followFormer({ relaySession: own, spool }: TellLostDeps): () => Promise<Booked[]> {
  let read = new Map<string, Booked>();
  return async () => {
    const newest = new Map<string, SpoolFile>();
    for (const file of spool.files())
      if (file.isBooked && file.relaySession !== own) newest.set(file.relaySession, file);
    const known = read;
    read = new Map();
    for (const { file, relaySession } of newest.values()) {
      const found = known.get(file) ?? { relaySession, booked: await numbersIn(spool, { file, relaySession }) };
      read.set(file, found);
    }
    return [...read.values()].toSorted((one, other) => (one.relaySession > other.relaySession ? -1 : 1));
  };
}

type NamedFile = Pick<SpoolFile, "file" | "relaySession">;

async function numbersIn(spool: Pick<Spool, "recordsIn">, { file, relaySession }: NamedFile): Promise<bigint> {
  let numbers = 0n;
  for await (const events of readNumbered(spool, { file, relaySession })) {
    for (const { sequence } of events.values()) if (sequence >= numbers) numbers = sequence + 1n;
  }
  return numbers;
}

/** The final records of a process in a file, some in each turn of the event loop. */
async function* readNumbered(
  spool: Pick<Spool, "recordsIn">,
  { file, relaySession }: NamedFile,
): AsyncGenerator<Map<Uint8Array, UsageRecorded>> {
  const records = spool.recordsIn(file);
  for (let at = 0; at < records.length; at += recordsAtOnce) {
    await nextTurn();
    const read = records
      .slice(at, at + recordsAtOnce)
      .map((record) => [record, fromBinary(UsageRecordedSchema, record)] as const);
    const isNumbered = ({ kind, relaySession: owner }: UsageRecorded): boolean =>
      kind === RecordKind.FINAL && owner === relaySession;
    yield new Map(read.filter(([, event]) => isNumbered(event)));
  }
}

async function tellAgain(deps: TellLostDeps, lost: readonly Lost[]): Promise<void> {
  const { spool, publisher, metrics, log } = deps;
  for (const { relaySession, charges } of lost) {
    let told = 0;
    for (const { file } of spool.files().filter((one) => one.relaySession === relaySession)) {
      for await (const events of readNumbered(spool, { file, relaySession })) told += await tellUnbooked(deps, events);
      await publisher.drain(drainMs);
      if (publisher.waiting() > 0) throw new Error("the usage stream takes too long for charges that are told again");
    }
    const gone = Math.max(0, Number(charges) - told);
    metrics.lostCharges.toldAgain.inc(told);
    metrics.lostCharges.gone.inc(gone);
    log.error({ lost: relaySession, toldAgain: told, gone }, "the ledger has lost charges that it had booked");
  }
}

async function tellUnbooked({ quota, publisher }: TellLostDeps, events: Map<Uint8Array, UsageRecorded>) {
  if (events.size === 0) return 0;
  const { unbookedRids } = await quota.findLostCharges({ rids: [...events.values()].map(({ rid }) => rid) });
  const unbooked = new Set(unbookedRids);
  for (const [record, { rid }] of events) if (unbooked.has(rid)) publisher.publish(record);
  return unbooked.size;
}
