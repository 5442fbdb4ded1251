import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "#shared/metrics/ops.ts";
import { metricsText } from "#shared/metrics/text.ts";
import { createFailingAccounts } from "./failing-accounts.ts";

function failing() {
  const registry = createRegistry("relay");
  const time = { nowMs: 0 };
  const count = createFailingAccounts(registry, () => time.nowMs);
  const shown = async (): Promise<string[]> => {
    const text = await metricsText(registry, { service: "relay", isOpenMetrics: false });
    const pattern = /^relay_failing_account_calls\{account="(\w+)",outcome="(\w+)",service="relay"\} (\d+)$/gm;
    return [...text.matchAll(pattern)].map(([, account, outcome, calls]) => `${account} ${outcome} ${calls}`);
  };
  return { time, count, shown };
}

test("the ten accounts with most failed calls are shown; whole calls and calls that were left do not count", async () => {
  const { count, shown } = failing();
  for (let account = 1; account <= 12; account += 1)
    for (let call = 0; call < account; call += 1) count(`a${account}`, "upstream_error");
  for (const outcome of ["ok", "client_gone", "draining"] as const) count("a1", outcome);
  count("a12", "quota_denied");
  const found = await shown();
  assert.deepEqual(
    found,
    Array.from({ length: 10 }, (_, index) => `a${12 - index} upstream_error ${12 - index}`),
  );
});

test("failures are forgotten after the second window, and accounts beyond the limit are not counted", async () => {
  const { time, count, shown } = failing();
  count("early", "gateway_error");
  time.nowMs = 300_000;
  count("early", "gateway_error");
  assert.deepEqual(await shown(), ["early gateway_error 2"]);
  time.nowMs = 600_000;
  assert.deepEqual(await shown(), ["early gateway_error 1"]);
  time.nowMs = 1_500_000;
  assert.deepEqual(await shown(), []);
  for (let account = 0; account < 2_001; account += 1) count(`n${account}`, "gateway_error");
  for (let call = 0; call < 3; call += 1) count("n2000", "gateway_error");
  assert.equal(
    (await shown()).some((line) => line.startsWith("n2000")),
    false,
  );
});
