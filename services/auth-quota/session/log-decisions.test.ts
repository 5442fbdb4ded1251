import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { createDecisionLog } from "./log-decisions.ts";
import { emptyOperation } from "./session-wire.ts";

type Line = { rid?: string; rids?: string[]; verdict?: string; omitted?: number; [field: string]: unknown };

function logged() {
  const lines: Line[] = [];
  const time = { ms: 1_000 };
  const log = createLog("test", "info", { write: (line) => void lines.push(JSON.parse(line) as Line) });
  return { lines, time, decided: createDecisionLog(log, () => time.ms) };
}

const reserve = (rid: string) => ({ ...emptyOperation("reserve"), rid });

test("refused reserves and slow batches are logged with the ids of their calls, and others are not", () => {
  const { lines, decided } = logged();
  const operations = [reserve("one"), reserve("two"), { ...emptyOperation("settle"), rid: "three" }];
  const results = [
    { verdict: Verdict.OK },
    { verdict: Verdict.BALANCE, accountId: "acct" },
    { verdict: Verdict.NO_HOLD },
  ];
  decided(operations, results, 3);
  assert.deepEqual(
    lines.map((line) => [line.rid, line.verdict, line["msg"]]),
    [["two", "balance", "hold refused"]],
  );
  decided(operations.slice(0, 1), [{ verdict: Verdict.OK }], 300);
  assert.deepEqual([lines[1]?.rids, lines[1]?.["msg"], lines.length], [["one"], "slow decision", 2]);
});

test("a flood of refused reserves has twenty lines a second, and the next one says how many were left out", () => {
  const { lines, time, decided } = logged();
  for (let index = 0; index < 50; index += 1) decided([reserve(`r${index}`)], [{ verdict: Verdict.ACCOUNT_RATE }], 1);
  assert.equal(lines.length, 20);
  time.ms += 1_000;
  decided([reserve("later")], [{ verdict: Verdict.ACCOUNT_RATE }], 1);
  assert.deepEqual([lines.length, lines.at(-1)?.rid, lines.at(-1)?.omitted], [21, "later", 30]);
});
