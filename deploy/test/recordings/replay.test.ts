import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { startWorld } from "../e2e/world.ts";
import type { Bill } from "./bill.ts";
import { findRecordings, readExchanges } from "./recordings.ts";
import { type Cell, matrixOf, replayAll, replayCatalog } from "./replay.ts";
import { sendRecorded } from "./replay-requests.ts";
import { startReplayUpstream } from "./replay-upstream.ts";

const folder = findRecordings(process.env);
const skip = folder === undefined ? "no recordings here: set RECORDINGS_DIR" : false;

const chargedOf = ({ usage }: LedgerLine): Bill =>
  Object.fromEntries(
    Object.entries(usage?.usage ?? {}).flatMap(([name, count]) =>
      typeof count === "bigint" && count > 0n ? [[name, Number(count)]] : [],
    ),
  );

/** Calls whose ledger line has other units than the provider bills. */
function misbilled(cells: Cell[], lines: LedgerLine[]): string[] {
  const charged = new Map(
    lines.map((line) => [`${line.usage?.endpoint} ${line.usage?.modelRequested}`, chargedOf(line)] as const),
  );
  return cells.flatMap(({ name, endpoint, model, bill }) => {
    const found = charged.get(`${endpoint} ${model}`);
    if (found && (!bill || isDeepStrictEqual(found, bill))) return [];
    return [`${name} by ${endpoint}: ${JSON.stringify(found)} instead of ${JSON.stringify(bill)}`];
  });
}

test("recorded traffic of providers, replayed through a relay", { skip }, async (context) => {
  const exchanges = readExchanges(folder ?? "").filter(({ status }) => status === 200);
  await using upstream = await startReplayUpstream(exchanges);
  await using world = await startWorld({ catalog: () => replayCatalog(upstream.url, exchanges) });
  const { accountId, secret } = await world.createCustomer({ creditNanos: 1_000_000_000_000n });
  const { relayUrl: url } = world;

  await context.test(
    "answers reach the official clients of every format, and their counts the ledger",
    async (inner) => {
      const cells = await replayAll(url, secret, exchanges);
      for (const line of matrixOf(cells)) inner.diagnostic(line);
      const lost = cells.filter(({ outcome }) => outcome !== "passed");
      for (const { name, provider, client, outcome, cause } of lost) {
        inner.diagnostic(`${provider} to ${client}, ${name}, ${outcome}: ${cause}`);
      }
      assert.ok(cells.length > 0, "there were answers to send");
      assert.equal(lost.length, 0, "answers that did not arrive as they were recorded");
      const lines = await world.untilSettled(accountId, cells.length, 60_000);
      assert.deepEqual(misbilled(cells, lines), []);
    },
  );

  await context.test("requests reach the providers of other formats with all that they say", async (inner) => {
    const { calls, problems } = await sendRecorded({ url, secret, upstream }, exchanges);
    inner.diagnostic(`${calls} requests`);
    for (const problem of problems) inner.diagnostic(problem);
    assert.ok(calls > 0, "there were requests to send");
    assert.equal(problems.length, 0, "requests that did not arrive");
  });
});
