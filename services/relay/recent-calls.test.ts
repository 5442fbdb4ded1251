import assert from "node:assert/strict";
import { test } from "node:test";
import { createRecentCalls } from "./recent-calls.ts";

const minuteMs = 60_000;

test("calls of a model count for an hour, as served or failed; what is the caller's doing counts as neither", () => {
  let nowMs = 0;
  const recent = createRecentCalls(() => nowMs);
  recent.count("words", "ok");
  recent.count("words", "upstream_error");
  for (const outcome of ["client_error", "quota_denied", "client_gone", "draining"] as const) {
    recent.count("words", outcome);
  }
  recent.count("other", "gateway_error");
  assert.deepEqual(recent.of("words"), { served: 1, failed: 1 });
  assert.deepEqual(recent.of("other"), { served: 0, failed: 1 });
  assert.deepEqual(recent.of("never called"), { served: 0, failed: 0 });

  nowMs = 54 * minuteMs;
  recent.count("words", "ok");
  assert.deepEqual(recent.of("words"), { served: 2, failed: 1 });
  nowMs = 60 * minuteMs;
  assert.deepEqual(recent.of("words"), { served: 1, failed: 0 });
  nowMs = 1_000 * minuteMs;
  assert.deepEqual(recent.of("words"), { served: 0, failed: 0 });
});
