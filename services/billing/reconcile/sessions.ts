import { fromBinary } from "@bufbuild/protobuf";
import { RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { counted, listed, maxItems, right, usd, wrong, type CheckResult } from "../records/finding.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import {
  findGaps,
  findHoledSessions,
  findNumbersUsedTwice,
  readQuarantinedSince,
  type GapRow,
  type TwiceRow,
} from "../store/reconcile-sessions.ts";

/** Where a record that the ledger lacks was found. */
export type EventLocation = { rid: string; location: "outbox" | "quarantine"; costNanos: bigint };

/** What is missing of one relay process. */
export type SessionHoles = { relaySession: string; gaps: GapRow[] };

type Completeness = {
  sessions: bigint;
  holes: SessionHoles[];
  /** By `keyOf`. */
  found: Map<string, EventLocation>;
  isOutboxKnown: boolean;
  twice: TwiceRow[];
  /** Relay processes of which more events are booked than they have numbers. */
  surplus: string[];
};

/** Lists the oldest records that auth-quota has not been told to be booked; undefined when it does not answer. */
export type ListOutbox = () => Promise<readonly Uint8Array[] | undefined>;

const ageMs = 600_000;
const sessionsAtOnce = 20;
const quarantinedAtOnce = 10_000;
const oldestMs = 61 * 86_400_000;

/** Reads what R2 judges; outbox and quarantine are looked through only when something is missing. */
export async function readCompleteness(
  pool: Pool,
  { day, nowMs }: { day: string | undefined; nowMs: number },
  listOutbox: ListOutbox,
): Promise<Completeness> {
  const { sessions, holed } = await findHoledSessions(pool, ageMs, sessionsAtOnce);
  const holes: SessionHoles[] = [];
  for (const session of holed) {
    const gaps = await findGaps(pool, session, ageMs);
    if (gaps.length > 0) holes.push({ relaySession: session.relaySession, gaps });
  }
  const found = new Map<string, EventLocation>();
  let isOutboxKnown = true;
  if (holes.length > 0) {
    note(found, "quarantine", await readQuarantinedSince(pool, nowMs - oldestMs, quarantinedAtOnce));
    const records = await listOutbox();
    isOutboxKnown = records !== undefined;
    note(found, "outbox", records ?? []);
  }
  const surplus = holed.filter(({ events, highest }) => events > highest + 1n).map(({ relaySession }) => relaySession);
  const twice = day === undefined ? [] : await findNumbersUsedTwice(pool, day);
  return { sessions, holes, found, isOutboxKnown, twice, surplus };
}

function note(
  found: Map<string, EventLocation>,
  location: EventLocation["location"],
  records: readonly Uint8Array[],
): void {
  for (const bytes of records) {
    const record = readRecord(bytes);
    if (record?.kind !== RecordKind.FINAL) continue;
    const { rid, relaySession, sequence, costNanos } = record;
    const key = keyOf(relaySession, sequence);
    if (!found.has(key)) found.set(key, { rid, location, costNanos });
  }
}

function readRecord(bytes: Uint8Array) {
  try {
    return fromBinary(UsageRecordedSchema, bytes);
  } catch {
    // What is no record at all is counted by R10.
    return undefined;
  }
}

function keyOf(relaySession: string, sequence: bigint): string {
  return `${relaySession} ${sequence}`;
}

/** How many events are missing, holes of any place. */
export function countHoles(holes: readonly SessionHoles[]): bigint {
  return holes.reduce((sum, { gaps }) => gaps.reduce((count, { first, last }) => count + last - first + 1n, sum), 0n);
}

/**
 * R2: the numbers of each relay process are dense (money invariant I11), so that a missing event has a name. What is in
 * quarantine is not lost: it is listed here and wrong under R10.
 */
export function judgeCompleteness(completeness: Completeness): CheckResult {
  const { sessions, holes, found, isOutboxKnown, twice, surplus } = completeness;
  const missing = countHoles(holes);
  const names = namesOf(holes);
  const quarantined = names.filter((name) => found.get(name)?.location === "quarantine");
  const held = names.filter((name) => found.get(name)?.location === "outbox");
  const heldNanos = held.reduce((sum, name) => sum + (found.get(name)?.costNanos ?? 0n), 0n);
  const items = [
    ...names.map((name) => `missing: ${tell(name, found.get(name))}`),
    ...twice.map(({ relaySession, number, lines }) => `${relaySession} ${number}: ${lines} lines bear this number`),
    ...surplus.map((relaySession) => `${relaySession}: more events than numbers`),
  ];
  if (items.length === 0)
    return right(`no event is missing of ${counted(sessions, "relay process", "relay processes")}`);
  const isNumberedTwice = twice.length + surplus.length > 0;
  const words = [
    `${counted(missing, "event")} missing for 10 minutes or more`,
    isOutboxKnown
      ? `${held.length} of them in auth-quota's outbox (${usd(heldNanos)}), which tells them again`
      : "auth-quota's outbox could not be asked",
    `${quarantined.length} in quarantine`,
    ...(isNumberedTwice
      ? ["numbers used twice: a relay that restarted under its old name, or lines put in by hand"]
      : []),
    "others: replay the stream, look at the relay's spool",
  ].join("; ");
  const isExplained = !isNumberedTwice && missing === BigInt(quarantined.length);
  return isExplained ? listed(words, items) : wrong(words, items);
}

function namesOf(holes: readonly SessionHoles[]): string[] {
  const names: string[] = [];
  for (const { relaySession, gaps } of holes) {
    for (const { first, last } of gaps) {
      for (let number = first; number <= last && names.length < maxItems; number += 1n) {
        names.push(keyOf(relaySession, number));
      }
    }
  }
  return names;
}

function tell(name: string, found: EventLocation | undefined): string {
  return found ? `${name}: ${found.location} holds it, call ${found.rid}, ${usd(found.costNanos)}` : name;
}
