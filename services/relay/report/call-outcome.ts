import { expectedCauses, type Failure, type FailureName } from "../failures.ts";

/** Whose doing it was that a call ended as it did; the availability goal counts gateway_error alone as ours. */
export const callOutcomes = [
  "ok",
  "client_error",
  "quota_denied",
  "upstream_error",
  "gateway_error",
  "client_gone",
  "draining",
] as const;
export type CallOutcome = (typeof callOutcomes)[number];

const outcomeOfFailure: Record<FailureName, CallOutcome> = {
  key_invalid: "client_error",
  balance: "quota_denied",
  key_limit: "quota_denied",
  model_unavailable: "client_error",
  wrong_endpoint: "client_error",
  invalid_json: "client_error",
  body_too_large: "client_error",
  field_required: "client_error",
  field_invalid: "client_error",
  account_rate: "quota_denied",
  ip_rate: "quota_denied",
  upstream_rate: "upstream_error",
  upstream_unreachable: "upstream_error",
  upstream_error: "upstream_error",
  upstream_refused: "client_error",
  upstream_invalid: "upstream_error",
  upstream_unavailable: "upstream_error",
  upstream_account: "upstream_error",
  upstream_timeout: "upstream_error",
  upstream_overloaded: "upstream_error",
  video_rejected: "client_error",
  task_not_found: "client_error",
  task_file_not_found: "client_error",
  task_not_ready: "client_error",
  task_failed: "client_error",
  artifact_gone: "client_error",
  idempotency_key_reused: "client_error",
  answer_too_large: "gateway_error",
  submission_unknown: "gateway_error",
  service_unavailable: "gateway_error",
  invalid_url: "client_error",
  malformed_request: "client_error",
  not_processable: "client_error",
};

const outcomeOfEnd = new Map<string, CallOutcome>([
  ["complete", "ok"],
  ["client_gone", "client_gone"],
  ["upstream_error", "upstream_error"],
  ["upstream_cut", "upstream_error"],
  ["upstream_timeout", "upstream_error"],
  ["hold_exhausted", "quota_denied"],
]);

export type EndedCall = { failure: Pick<Failure, "name" | "cause"> | undefined; end: string; status: number };

const isWished = ({ cause }: Pick<Failure, "cause">): boolean =>
  cause === expectedCauses.stopping || cause === expectedCauses.maintenance;

/** `end` is what the line of the call in the log says; 499 is the status of one whose caller was told nothing. */
export function callOutcomeOf({ failure, end, status }: EndedCall): CallOutcome {
  if (end === "drained" || (failure && isWished(failure))) return "draining";
  if (status === 499) return "client_gone";
  return failure ? outcomeOfFailure[failure.name] : (outcomeOfEnd.get(end) ?? "gateway_error");
}
