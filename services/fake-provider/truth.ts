import { randomUUID } from "node:crypto";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import type { Claim } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { FakeDialect } from "./dialect.ts";

/**
 * What the fake upstream really did for one request that reached it whole.
 *
 * `tokensEmitted` counts what was handed to the connection, which is at least what the other side has seen.
 * `claim` is in the disjoint buckets of usage.v1, so it compares directly with a usage event.
 */
export type Truth = {
  /** The process that served; a new id for every start. */
  run: string;
  /** Number of the request within the run, from 1. */
  sequence: number;
  /** The header x-request-id of the request, by which a relay names its call. */
  rid: string | null;
  dialect: FakeDialect;
  model: string;
  isStream: boolean;
  behaviour: Behaviour;
  /** Words of the prompt. */
  promptTokens: number;
  tokensPlanned: number;
  tokensEmitted: number;
  /** What the answer claims when it is whole; null: nothing. */
  claim: Claim | null;
  /** Whether the claim was handed to the connection. */
  isClaimEmitted: boolean;
  /**
   * whole: everything was handed to the connection; refused: an error instead of an answer; cut: a fault struck;
   * client-gone: the caller hung up before.
   */
  ended: "open" | "whole" | "cut" | "client-gone" | "refused";
  /** HTTP status of the answer; null: none was sent. */
  status: number | null;
  startedAt: number;
  endedAt: number | null;
};

export type TruthLog = Disposable & {
  records: Truth[];
  /** Adds a record; it may be changed in place until `end`. */
  open: (facts: Omit<Truth, "run" | "sequence" | "ended" | "startedAt" | "endedAt">) => Truth;
  end: (truth: Truth, ended: Exclude<Truth["ended"], "open">) => void;
};

/**
 * Keeps the newest `limit` records and, when a file is given, appends each as a line of JSON when it opens and when
 * it ends. Lines are written at once, so they survive the death of this process.
 */
export function createTruthLog(limit: number, file: string | undefined): TruthLog {
  const run = randomUUID();
  const records: Truth[] = [];
  const descriptor = file === undefined ? undefined : openSync(file, "a");
  const write = (truth: Truth): void => {
    if (descriptor !== undefined) writeSync(descriptor, `${JSON.stringify(truth)}\n`);
  };
  let sequence = 0;
  return {
    records,
    open: (facts) => {
      sequence += 1;
      const truth: Truth = { ...facts, run, sequence, ended: "open", startedAt: Date.now(), endedAt: null };
      records.push(truth);
      if (records.length > limit) records.shift();
      write(truth);
      return truth;
    },
    end: (truth, ended) => {
      if (truth.ended !== "open") return;
      truth.ended = ended;
      truth.endedAt = Date.now();
      write(truth);
    },
    [Symbol.dispose]: () => {
      if (descriptor !== undefined) closeSync(descriptor);
    },
  };
}

/** Reads a truth file: the last state of each request, in the order in which they came. */
export function readTruthFile(file: string): Truth[] {
  const byRequest = new Map<string, Truth>();
  const lines = readFileSync(file, "utf8").split("\n");
  // What follows the last line end is empty, or half a line of a process that was killed while it wrote.
  for (const line of lines.slice(0, -1)) {
    const truth = JSON.parse(line) as Truth;
    byRequest.set(`${truth.run} ${truth.sequence}`, truth);
  }
  return [...byRequest.values()];
}
