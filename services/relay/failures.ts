import type { Refusal } from "./dialects/dialect.ts";

export type FailureRow = {
  /** When a caller is told so, as a sentence for the README. */
  when: string;
  status: number;
  message: string;
  /** `error.type` in Format B and on /v1/videos. */
  type: string;
  /** `error.code` in Format A. */
  code: string;
  retryAfterSeconds?: number;
  /** Sent as x-should-retry, which the official clients obey. */
  shouldRetry?: false;
  /** What Format B answers instead, where the API spec has rows of its own for it. */
  formatB?: Partial<Pick<FailureRow, "status" | "message" | "type" | "retryAfterSeconds">>;
};

const temporarilyUnavailable = "The model service is temporarily unavailable, please try again later";

/**
 * Everything a caller can be told that went wrong: the rows of the API spec's table "Cases", in its words.
 * A caller never sees a text that is not in this table, apart from upstreams' own wording where the spec says so.
 */
export const failures = {
  key_invalid: {
    when:
      "The key is missing, wrong, stopped, expired, deleted, of a suspended account, " +
      "or has used up its limit and asks for more than its videos; or it is limited to other addresses.",
    status: 401,
    message: "Invalid API key",
    type: "authentication_error",
    code: "",
  },
  balance: {
    when: "The account's balance does not cover the estimated price.",
    status: 403,
    message: "Insufficient balance",
    type: "permission_error",
    code: "insufficient_quota",
  },
  key_limit: {
    when: "The estimated price is more than the key may still spend.",
    status: 403,
    message: "This API key has reached its spending limit",
    type: "permission_error",
    code: "insufficient_quota",
  },
  model_unavailable: {
    when: "There is no such model, or not for this key; asking again does not help.",
    status: 503,
    message: "The model {detail} does not exist or is not available",
    type: "api_error",
    code: "model_not_found",
    shouldRetry: false,
  },
  wrong_endpoint: {
    when: "The model is not served at this endpoint; the message names those at which it is.",
    status: 400,
    message: "The model {detail}",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  invalid_json: {
    when: "The body is not a JSON object, or a field stands twice in it.",
    status: 400,
    message: "Invalid request: invalid JSON request body",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  body_too_large: {
    when: "The body is larger than 128 MB.",
    status: 400,
    message: "Invalid request: request body exceeds 128 MB: request body too large",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  field_required: {
    when: "A field that the endpoint needs is missing or null.",
    status: 400,
    message: "field {detail} is required",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  field_invalid: {
    when:
      "A field or header that the relay itself reads is of the wrong kind or too long, " +
      "or the body has too many values or fields; the message says which.",
    status: 400,
    message: "{detail}",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  account_rate: {
    when: "The account makes more calls a minute than it may.",
    status: 429,
    message: "Rate limit exceeded for your account, please retry after 60 seconds",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    retryAfterSeconds: 60,
  },
  ip_rate: {
    when: "The address makes more calls a minute than it may; Retry-After says how long to wait.",
    status: 429,
    message:
      "Too many requests from your IP address, please retry after the number of seconds in the Retry-After header",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
  },
  upstream_rate: {
    when: "The upstream limits the service's calls.",
    status: 429,
    message: "The model service is temporarily rate limited, please retry after 60 seconds",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    retryAfterSeconds: 60,
  },
  upstream_unreachable: {
    when: "No connection to the upstream came about, or it broke before an answer.",
    status: 500,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "server_error",
  },
  upstream_error: {
    when: "The upstream failed and said why; its wording, type and param pass.",
    status: 500,
    message: "{detail}",
    type: "api_error",
    code: "server_error",
  },
  upstream_refused: {
    when: "The upstream refused the request; its wording, code, type, param and details pass.",
    status: 400,
    message: "{detail}",
    type: "invalid_request_error",
    code: "",
  },
  upstream_invalid: {
    when: "The upstream's answer cannot be read, or is none of this format.",
    status: 502,
    message: "The model service returned an invalid response, please try again later",
    type: "api_error",
    code: "server_error",
    formatB: { message: "The model service returned an error (HTTP 502), please try again later" },
  },
  // What would be tried again would be charged again, as of a submission that is unknown.
  answer_too_large: {
    when:
      "The answer is larger than `MAX_REPLY_BYTES` and would have to be changed for the caller, or took more memory " +
      "than a thread has; its provider has made it, so it is charged.",
    status: 400,
    message: "The request could not be completed: the answer is too large, ask for a stream or for less of it",
    type: "invalid_request_error",
    code: "",
    shouldRetry: false,
  },
  upstream_unavailable: {
    when: "The upstream says that it is unavailable for now, or is left alone after failures.",
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
  },
  upstream_account: {
    when: "The upstream refuses the service's own account.",
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 60,
  },
  upstream_timeout: {
    when: "The upstream did not answer in time.",
    status: 504,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "server_error",
  },
  upstream_overloaded: {
    when: "The upstream is overloaded.",
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
    formatB: { status: 529, message: "Overloaded", type: "overloaded_error" },
  },
  video_rejected: {
    when: "The provider of a video's model refuses to make it.",
    status: 400,
    message: "The model service rejected the request, check the parameters and try again",
    type: "invalid_request_error",
    code: "upstream_error",
  },
  task_not_found: {
    when: "There is no such video, or it is another account's.",
    status: 400,
    message: "Task not found",
    type: "invalid_request_error",
    code: "task_not_found",
  },
  task_file_not_found: {
    when: "The file of a video is asked for that does not exist, or is another account's.",
    status: 404,
    message: "Task not found",
    type: "not_found_error",
    code: "task_not_found",
  },
  task_not_ready: {
    when: "The file of a video is asked for, or its deletion, before it has ended.",
    status: 400,
    message: "The video is not ready yet",
    type: "invalid_request_error",
    code: "task_not_ready",
  },
  task_failed: {
    when: "The file of a video is asked for that failed.",
    status: 400,
    message: "The video generation failed",
    type: "invalid_request_error",
    code: "task_failed",
  },
  artifact_gone: {
    when: "The provider no longer keeps the file of a video.",
    status: 410,
    message: "Artifact content is no longer available",
    type: "not_found_error",
    code: "artifact_gone",
  },
  idempotency_key_reused: {
    when: "An Idempotency-Key comes again with another request; asking again does not help.",
    status: 409,
    message: "This Idempotency-Key was used with another request",
    type: "invalid_request_error",
    code: "invalid_request",
    shouldRetry: false,
  },
  // API spec, Retry guidance: 500 would be tried again, by clients that know no x-should-retry too, which may make and
  // charge a second video. 400 is not, and no code of the spec says what this is.
  submission_unknown: {
    when: "Nobody knows whether a provider has taken the video; only if one has, it is charged and in the list.",
    status: 400,
    message:
      "The request could not be completed: it is not known whether the model service took the video, " +
      "look for it in the list before you submit another",
    type: "invalid_request_error",
    code: "",
    shouldRetry: false,
  },
  service_unavailable: {
    when: "The service is stopping, under maintenance, too busy, or cannot decide on the call.",
    status: 503,
    message: "The service is temporarily unavailable, please try again later",
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
  },
  invalid_url: {
    when: "The path is not one of the API, or not with this method.",
    status: 404,
    message: "Invalid URL ({detail})",
    type: "not_found_error",
    code: "",
  },
  malformed_request: {
    when: "The request is not well-formed HTTP, exceeds a limit of it, or its body stops coming or cannot be decoded.",
    status: 400,
    message: "The request could not be completed",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  not_processable: {
    when: "The request cannot be taken for any other reason, plain HTTP among them.",
    status: 403,
    message: "The request could not be completed",
    type: "permission_error",
    code: "invalid_request",
  },
} as const satisfies Record<string, FailureRow>;

export type FailureName = keyof typeof failures;

/** Why a call is refused; `detail` fills the `{detail}` of the row's message. */
export type Failure = {
  name: FailureName;
  detail?: string;
  /** An upstream's own `error.code`, `error.type` and `error.param`, where its wording passes. */
  code?: string | undefined;
  upstreamType?: string | undefined;
  param?: string | undefined;
  /** `error.details` of Format B: an upstream's own, or a code of ours. */
  details?: object | undefined;
  retryAfterSeconds?: number;
  /** What the owner of the key is told, where callers are not told all that the name says. */
  reason?: "key_address";
  /** For the log only. */
  cause?: unknown;
};

/** Thrown by the steps of a call; caught once, at its edge. */
export class CallFailure extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.name, { cause: failure.cause });
    this.failure = failure;
  }
}

export type RenderedFailure = Refusal & { retryAfterSeconds: number | undefined; shouldRetry: false | undefined };

/** The row of a failure as the caller's format shows it. */
export function renderFailure(failure: Failure, format: "A" | "B"): RenderedFailure {
  const base: FailureRow = failures[failure.name];
  const row: FailureRow = format === "B" ? { ...base, ...base.formatB } : base;
  return {
    status: row.status,
    message: row.message.replace("{detail}", () => failure.detail ?? ""),
    type: row.type,
    code: failure.code ?? row.code,
    upstreamType: failure.upstreamType,
    param: failure.param,
    details: failure.details,
    retryAfterSeconds: failure.retryAfterSeconds ?? row.retryAfterSeconds,
    shouldRetry: row.shouldRetry,
  };
}

/** Causes of `service_unavailable` that the operator brought about. */
export const expectedCauses = { stopping: "the relay is stopping", maintenance: "maintenance" } as const;
