import type { JetStreamManager } from "@nats-io/jetstream";
import type { Pool } from "#shared/stores/postgres.ts";
import { fundsStream } from "#shared/stores/usage-stream.ts";
import { readMark, writeMark, type StreamMark } from "../store/ledger-epoch.ts";
import { isBooked } from "../store/manual.ts";
import { isByHand, readFunds } from "./rebook-funds.ts";
import { isMissing } from "./stream.ts";

const messagesPerPass = 200;

/** Where the stream of lines by hand ends; undefined where there is none. */
export async function endOfFunds(manager: JetStreamManager): Promise<(StreamMark & { first: bigint }) | undefined> {
  try {
    const { created, state } = await manager.streams.info(fundsStream);
    const [first, sequence] = [BigInt(state.first_seq), BigInt(state.last_seq)];
    return { stream: `${fundsStream} ${created}`, sequence, first };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * Looks whether the ledger has each line by hand that the stream has taken since the last look: a line is published
 * behind its commit, so that one that is not there is lost. Returns where that one is. Calls alone do not tell: between
 * a snapshot of a disk and its return there may have been a credit and nothing else.
 */
export async function findLostFunds(pool: Pool, manager: JetStreamManager): Promise<StreamMark | undefined> {
  const end = await endOfFunds(manager);
  if (!end) return undefined;
  const booked = await readMark(pool, end.stream);
  if (booked === end.sequence) return undefined;
  // Of a stream that is new to the ledger nothing is known; one from an older disk uses its sequences again.
  let sequence = booked !== undefined && booked < end.sequence ? booked : end.sequence;
  if (sequence < end.first - 1n) sequence = end.first - 1n;
  for (let left = messagesPerPass; left > 0 && sequence < end.sequence; left -= 1) {
    sequence += 1n;
    if (!(await isInLedger(pool, manager, sequence))) return { stream: end.stream, sequence };
  }
  await writeMark(pool, { stream: end.stream, sequence });
  return undefined;
}

async function isInLedger(pool: Pool, manager: JetStreamManager, sequence: bigint): Promise<boolean> {
  const message = await manager.streams.getMessage(fundsStream, { seq: Number(sequence) });
  const line = message && readFunds(message.data)?.line;
  if (!line || !isByHand(line.kind)) return true;
  return await isBooked(pool, { kind: line.kind, reference: line.reference });
}
