import assert from "node:assert/strict";
import { test } from "node:test";
import { callOutcomeOf, type CallOutcome } from "./call-outcome.ts";
import { expectedCauses, type FailureName } from "../failures.ts";

type Row = { outcome: CallOutcome; failure?: FailureName; cause?: unknown; end?: string; status?: number };

const rows: Record<string, Row> = {
  "a whole answer": { end: "complete", outcome: "ok" },
  "a body that is no JSON": { failure: "invalid_json", status: 400, outcome: "client_error" },
  "a wrong key": { failure: "key_invalid", status: 401, outcome: "client_error" },
  "a model that is not offered": { failure: "model_unavailable", status: 503, outcome: "client_error" },
  "no balance": { failure: "balance", status: 403, outcome: "quota_denied" },
  "a key at its limit": { failure: "key_limit", status: 403, outcome: "quota_denied" },
  "too many calls of an account": { failure: "account_rate", status: 429, outcome: "quota_denied" },
  "a stream that outgrew its hold": { end: "hold_exhausted", outcome: "quota_denied" },
  "an upstream's refusal of the request": { failure: "upstream_refused", status: 400, outcome: "client_error" },
  "an upstream's rate limit": { failure: "upstream_rate", status: 429, outcome: "upstream_error" },
  "an upstream that is away": { failure: "upstream_unreachable", status: 500, outcome: "upstream_error" },
  "an upstream's answer that cannot be read": { failure: "upstream_invalid", status: 502, outcome: "upstream_error" },
  "a stream that its upstream cut": { end: "upstream_cut", outcome: "upstream_error" },
  "a stream that stood still": { end: "upstream_timeout", outcome: "upstream_error" },
  "a stream with an error in it": { end: "upstream_error", outcome: "upstream_error" },
  "auth-quota away": { failure: "service_unavailable", cause: "away", status: 503, outcome: "gateway_error" },
  "a video of which nobody knows": { failure: "submission_unknown", status: 400, outcome: "gateway_error" },
  "an end that nobody has named": { end: "unknown", outcome: "gateway_error" },
  "a caller who left the stream": { end: "client_gone", outcome: "client_gone" },
  "a caller who was told nothing": { end: "refused", status: 499, outcome: "client_gone" },
  "a failure that nobody heard of": { failure: "upstream_timeout", status: 499, outcome: "client_gone" },
  "a stream that the stop cut": { end: "drained", outcome: "draining" },
  "a call that the stop refused": {
    failure: "service_unavailable",
    cause: expectedCauses.stopping,
    status: 503,
    outcome: "draining",
  },
  "a call while the API is closed": {
    failure: "service_unavailable",
    cause: expectedCauses.maintenance,
    status: 503,
    outcome: "draining",
  },
};

for (const [what, { outcome, failure, cause, end = "refused", status = 200 }] of Object.entries(rows)) {
  test(`${what} is ${outcome}`, () => {
    assert.equal(callOutcomeOf({ failure: failure && { name: failure, cause }, end, status }), outcome);
  });
}
