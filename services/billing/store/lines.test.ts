import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { v7 } from "uuid";
import { CallResult, LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { query } from "#shared/testing/postgres.ts";
import { startApp } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";
import { makeSums } from "./make-sums.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const today = Math.floor(Date.now() / dayMs) * dayMs;

/** Some time passes, sums are made or not, and one of two accounts pays, or calls; of some the end comes days later. */
const steps = fc.array(
  fc.record({
    hours: fc.constantFrom(0, 1, 5, 30, 120),
    isSummed: fc.boolean(),
    accountId: fc.constantFrom("acct_a", "acct_b"),
    what: fc.constantFrom("call", "call", "late end", "credit"),
    ageDays: fc.integer({ min: 0, max: 9 }),
  }),
  { minLength: 15, maxLength: 20 },
);

test(
  "pages of an account's lines are those of the ledger, whichever of them are summed up",
  { timeout: 300_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        const time = { nowMs: today - 45 * dayMs };
        await using app = await startApp(server.postgres, { clock: { nowMs: () => time.nowMs } });
        for (const [index, { hours, isSummed, accountId, what, ageDays }] of taken.entries()) {
          time.nowMs = Math.min(time.nowMs + hours * hourMs, today - 5 * hourMs);
          if (isSummed) await makeSums(app.ledger.pool, time.nowMs);
          const rid = v7({ msecs: time.nowMs - ageDays * dayMs });
          const keyId = `key_${accountId}_${index % 2}`;
          const call = { rid, accountId, keyId, modelRequested: `model-${index % 3}`, outputTokens: 3n };
          const paymentId = String(index);
          if (what === "credit") await app.billing.credit({ accountId, amountNanos: 5_000n, paymentId });
          else await app.book({ ...call, kind: what === "late end" ? RecordKind.PROVISIONAL : RecordKind.FINAL });
          if (what !== "late end") continue;
          time.nowMs = Math.min(time.nowMs + 26 * hourMs, today - 5 * hourMs);
          await app.book({ ...call, outputTokens: 9n, kind: RecordKind.FINAL });
        }
        const { rows } = await query(
          app.ledger.ownerUrl,
          `SELECT line_id AS "lineId", account_id AS "accountId", kind, key_id AS "keyId", model_requested AS model
           FROM billing.ledger_line ORDER BY line_id DESC`,
        );
        for (const accountId of ["acct_a", "acct_b"]) {
          for (const kind of [LineKind.UNSPECIFIED, LineKind.CHARGE, LineKind.CREDIT]) {
            const own = rows.filter((row) => row.accountId === accountId && (kind === 0 || row.kind === kind));
            for (const limit of [1, 4, 100]) {
              const found = await readAll(app, { accountId, kind, limit });
              assert.deepEqual(
                found,
                own.map(({ lineId }) => lineId),
              );
            }
          }
          for (const { keyId, model } of [
            { keyId: `key_${accountId}_1`, model: "" },
            { keyId: "", model: "model-2" },
            { keyId: `key_${accountId}_0`, model: "model-0" },
            { keyId: "key_of_nobody", model: "" },
          ]) {
            const own = rows.filter((row) => row.accountId === accountId && (keyId === "" || row.keyId === keyId));
            const wanted = own.filter((row) => model === "" || row.model === model).map(({ lineId }) => lineId);
            for (const limit of [1, 4, 100]) {
              assert.deepEqual(await readFiltered(app, { accountId, keyId, model, limit }), wanted);
            }
          }
        }
      }),
      { numRuns: 5, endOnFailure: true },
    );
  },
);

type App = Awaited<ReturnType<typeof startApp>>;

/** The ids of all lines, read page by page; pages before the last are full. */
async function readAll({ billing }: App, asked: { accountId: string; kind: LineKind; limit: number }) {
  const found: string[] = [];
  for (;;) {
    const { lines } = await billing.listLedgerLines({ ...asked, beforeLineId: found.at(-1) ?? "" });
    found.push(...lines.map(({ lineId }) => lineId));
    if (lines.length < asked.limit) return found;
  }
}

type Asked = { accountId: string; keyId?: string; model?: string; result?: CallResult; limit: number };

/** The same of some calls, page by page as it is told where the next begins. */
async function readFiltered({ billing }: App, asked: Asked): Promise<string[]> {
  const found: string[] = [];
  for (let beforeLineId = ""; ;) {
    const { lines, nextBeforeLineId } = await billing.listLedgerLines({ ...asked, beforeLineId });
    assert.ok(lines.length <= asked.limit);
    found.push(...lines.map(({ lineId }) => lineId));
    if (nextBeforeLineId === "") return found;
    beforeLineId = nextBeforeLineId;
  }
}

test("calls that ended early, behind thousands of others, are found on a later page", async () => {
  await using app = await startApp(server.postgres);
  await app.book({ accountId: "acct_a", endCause: EndCause.UPSTREAM_CUT });
  const { rows } = await query(app.ledger.ownerUrl, "SELECT line_id AS id FROM billing.ledger_line");
  await query(
    app.ledger.ownerUrl,
    `INSERT INTO billing.ledger_line (day, line_id, kind, account_id, key_id, amount_nanos, rid, cost_nanos,
       price_version, model_requested, event, payload_hash, end_cause)
     SELECT day, id, kind, account_id, key_id, amount_nanos, id, cost_nanos, price_version, model_requested, event,
       payload_hash, ${EndCause.COMPLETE}
     FROM (
       SELECT *, (left(line_id::text, 14) || '7fff-bfff-' || lpad(to_hex(n), 12, '0'))::uuid AS id
       FROM billing.ledger_line, generate_series(1, 5000) AS n
     ) AS line`,
  );
  const asked = { accountId: "acct_a", result: CallResult.OTHER, limit: 10 };
  const first = await app.billing.listLedgerLines(asked);
  assert.deepEqual(first.lines, []);
  assert.notEqual(first.nextBeforeLineId, "");
  assert.deepEqual(await readFiltered(app, asked), [rows[0]?.id]);
  const whole = await app.billing.listLedgerLines({ ...asked, result: CallResult.WHOLE });
  assert.equal(whole.lines.length, 10);
});
