import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { verdictName } from "../operation-names.ts";
import type { Result, SessionOperation } from "./session-wire.ts";

// A batch takes some milliseconds.
const slowMs = 250;
const maxRids = 10;
// Whoever floods with a key that is refused must not flood the log, too.
const maxLinesPerSecond = 20;

/** Logs a batch that took longer than it should, and each reserve that is refused, by the ids of their calls. */
export type LogDecisions = (
  operations: readonly SessionOperation[],
  results: readonly Result[],
  tookMs: number,
) => void;

/** At most 20 lines a second; the first of a later second says how many were left out. */
export function createDecisionLog(log: Logger, nowMs: () => number = Date.now): LogDecisions {
  let second = 0;
  let lines = 0;
  let omitted = 0;
  const write = (fields: object, message: string): void => {
    const current = Math.floor(nowMs() / 1_000);
    if (current !== second) [second, lines] = [current, 0];
    lines += 1;
    if (lines > maxLinesPerSecond) {
      omitted += 1;
      return;
    }
    log.info(omitted === 0 ? fields : { ...fields, omitted }, message);
    omitted = 0;
  };
  return (operations, results, tookMs) => {
    if (tookMs > slowMs) {
      const rids = operations.slice(0, maxRids).map(({ rid }) => rid);
      write({ rids, operations: operations.length, tookMs }, "slow decision");
    }
    for (const [index, { verdict = Verdict.UNSPECIFIED, accountId, keyId, isAddressRefused }] of results.entries()) {
      const operation = operations[index];
      if (operation?.name !== "reserve" || verdict === Verdict.OK) continue;
      const why = isAddressRefused ? { cause: "the key is limited to other addresses" } : {};
      write(
        { rid: operation.rid, account: accountId, key: keyId, verdict: verdictName(verdict), ...why },
        "hold refused",
      );
    }
  };
}
