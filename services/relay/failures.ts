import type { Refusal } from "./dialects/dialect.ts";

type FailureRow = {
  status: number;
  message: string;
  /** `error.type` in Format B. */
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
  key_invalid: { status: 401, message: "Invalid API key", type: "authentication_error", code: "" },
  balance: { status: 403, message: "Insufficient balance", type: "permission_error", code: "insufficient_quota" },
  key_limit: {
    status: 403,
    message: "This API key has reached its spending limit",
    type: "permission_error",
    code: "insufficient_quota",
  },
  model_unavailable: {
    status: 503,
    message: "The model {detail} does not exist or is not available",
    type: "api_error",
    code: "model_not_found",
    shouldRetry: false,
  },
  invalid_json: {
    status: 400,
    message: "Invalid request: invalid JSON request body",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  body_too_large: {
    status: 400,
    message: "Invalid request: request body exceeds 128 MB: request body too large",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  field_required: {
    status: 400,
    message: "field {detail} is required",
    type: "invalid_request_error",
    code: "invalid_request",
  },
  field_invalid: { status: 400, message: "{detail}", type: "invalid_request_error", code: "invalid_request" },
  account_rate: {
    status: 429,
    message: "Rate limit exceeded for your account, please retry after 60 seconds",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    retryAfterSeconds: 60,
  },
  ip_rate: {
    status: 429,
    message:
      "Too many requests from your IP address, please retry after the number of seconds in the Retry-After header",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
  },
  upstream_rate: {
    status: 429,
    message: "The model service is temporarily rate limited, please retry after 60 seconds",
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    retryAfterSeconds: 60,
  },
  upstream_unreachable: { status: 500, message: temporarilyUnavailable, type: "api_error", code: "server_error" },
  upstream_error: { status: 500, message: "{detail}", type: "api_error", code: "server_error" },
  upstream_refused: { status: 400, message: "{detail}", type: "invalid_request_error", code: "" },
  upstream_invalid: {
    status: 502,
    message: "The model service returned an invalid response, please try again later",
    type: "api_error",
    code: "server_error",
    formatB: { message: "The model service returned an error (HTTP 502), please try again later" },
  },
  upstream_unavailable: {
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
  },
  upstream_account: {
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 60,
  },
  upstream_timeout: { status: 504, message: temporarilyUnavailable, type: "api_error", code: "server_error" },
  upstream_overloaded: {
    status: 503,
    message: temporarilyUnavailable,
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
    formatB: { status: 529, message: "Overloaded", type: "overloaded_error" },
  },
  service_unavailable: {
    status: 503,
    message: "The service is temporarily unavailable, please try again later",
    type: "api_error",
    code: "service_unavailable",
    retryAfterSeconds: 5,
  },
  invalid_url: { status: 404, message: "Invalid URL ({detail})", type: "not_found_error", code: "" },
  not_processable: {
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
  /** An upstream's own `error.code` and `error.type`, where its wording passes. */
  code?: string | undefined;
  upstreamType?: string | undefined;
  retryAfterSeconds?: number;
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
    retryAfterSeconds: failure.retryAfterSeconds ?? row.retryAfterSeconds,
    shouldRetry: row.shouldRetry,
  };
}
