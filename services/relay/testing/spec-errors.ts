import type { Failure } from "../failures.ts";

type SpecResponse = { status: number; type: string; message: string; retryAfter?: string };

/** What callers of the two formats must be told of a failure, written down apart from the table that the relay uses. */
export type SpecError = {
  /** The row of the API spec's table, as it begins; left out where only its table Errors rules. */
  row?: string;
  /** That table, where it is not Cases. */
  section?: "Video generation errors";
  failure: Failure;
  formatA: SpecResponse & { code: string };
  formatB: SpecResponse;
};

/** API spec, Errors: the type that follows a status, in Format B and on /v1/videos; any other is `api_error`. */
export const typesByStatus: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  409: "invalid_request_error",
  410: "not_found_error",
  429: "rate_limit_error",
  529: "overloaded_error",
};

type Differences = {
  row?: string;
  section?: "Video generation errors";
  retryAfter?: string;
  /** What Format A has where an upstream's own error passes. */
  type?: string;
  formatB?: Partial<SpecResponse>;
};

/** An error that both formats tell alike, apart from `differences`; the status decides the type in Format B. */
function tell(
  failure: Failure,
  [status, message, code]: readonly [number, string, string],
  { row, section, retryAfter, type = "api_error", formatB = {} }: Differences = {},
): SpecError {
  const told = { message, ...(retryAfter !== undefined && { retryAfter }) };
  const statusInB = formatB.status ?? status;
  return {
    ...(row !== undefined && { row }),
    ...(section !== undefined && { section }),
    failure,
    formatA: { ...told, status, type, code },
    formatB: { ...told, type: typesByStatus[statusInB] ?? "api_error", status, ...formatB },
  };
}

const badRequest = (message: string) => [400, message, "invalid_request"] as const;
const unavailable = "The model service is temporarily unavailable, please try again later";

/** Every failure that the relay can tell, in the order of the spec's table Cases. */
export const specErrors: SpecError[] = [
  tell({ name: "invalid_url", detail: "POST /v1/v1/..." }, [404, "Invalid URL (POST /v1/v1/...)", ""], {
    row: "`/v1` twice",
  }),
  tell({ name: "invalid_url", detail: "POST /v1/..." }, [404, "Invalid URL (POST /v1/...)", ""], {
    row: "Unsupported endpoint",
  }),
  tell({ name: "key_invalid" }, [401, "Invalid API key", ""], {
    row: "Key invalid, missing, stopped, expired, deleted or limit used up",
  }),
  tell({ name: "balance" }, [403, "Insufficient balance", "insufficient_quota"], { row: "Insufficient balance" }),
  tell({ name: "key_limit" }, [403, "This API key has reached its spending limit", "insufficient_quota"], {
    row: "Estimated price above remaining key limit",
  }),
  tell(
    { name: "model_unavailable", detail: "<model_id>" },
    [503, "The model <model_id> does not exist or is not available", "model_not_found"],
    { row: "Wrong or unoffered model ID" },
  ),
  tell(
    { name: "wrong_endpoint", detail: "m is not served at /v1/embeddings but at /v1/videos" },
    badRequest("The model m is not served at /v1/embeddings but at /v1/videos"),
  ),
  tell({ name: "invalid_json" }, badRequest("Invalid request: invalid JSON request body"), {
    row: "Body not valid JSON",
  }),
  tell({ name: "body_too_large" }, badRequest("Invalid request: request body exceeds 128 MB: request body too large"), {
    row: "Body larger than 128 MB",
  }),
  tell({ name: "field_required", detail: "messages" }, badRequest("field messages is required"), {
    row: "Required field missing",
  }),
  tell({ name: "field_invalid", detail: "field $& must be {detail}" }, badRequest("field $& must be {detail}")),
  tell(
    { name: "upstream_refused", detail: "Upstream wording", code: "context_length_exceeded", upstreamType: "bad" },
    [400, "Upstream wording", "context_length_exceeded"],
    { row: "Input longer than model context length", type: "bad" },
  ),
  tell(
    { name: "account_rate" },
    [429, "Rate limit exceeded for your account, please retry after 60 seconds", "rate_limit_exceeded"],
    { row: "Account rate limit exceeded", retryAfter: "60" },
  ),
  tell(
    { name: "ip_rate", retryAfterSeconds: 17 },
    [
      429,
      "Too many requests from your IP address, please retry after the number of seconds in the Retry-After header",
      "rate_limit_exceeded",
    ],
    { row: "Same-IP rate limit exceeded", retryAfter: "17" },
  ),
  tell(
    { name: "upstream_rate" },
    [429, "The model service is temporarily rate limited, please retry after 60 seconds", "rate_limit_exceeded"],
    { row: "Upstream rate limit exceeded", retryAfter: "60" },
  ),
  tell({ name: "upstream_unreachable" }, [500, unavailable, "server_error"], { row: "Cannot connect to upstream" }),
  tell(
    { name: "upstream_error", detail: "Upstream wording", upstreamType: "server_error" },
    [500, "Upstream wording", "server_error"],
    { row: "Upstream returned an error", type: "server_error" },
  ),
  tell(
    { name: "upstream_invalid" },
    [502, "The model service returned an invalid response, please try again later", "server_error"],
    {
      row: "Upstream returned non-JSON",
      formatB: { message: "The model service returned an error (HTTP 502), please try again later" },
    },
  ),
  tell({ name: "upstream_unavailable" }, [503, unavailable, "service_unavailable"], {
    row: "Upstream temporarily unavailable, or problem with the service's account at upstream",
    retryAfter: "5",
  }),
  tell({ name: "upstream_account" }, [503, unavailable, "service_unavailable"], {
    row: "Upstream temporarily unavailable, or problem with the service's account at upstream",
    retryAfter: "60",
  }),
  tell({ name: "upstream_timeout" }, [504, unavailable, "server_error"]),
  tell(
    { name: "service_unavailable" },
    [503, "The service is temporarily unavailable, please try again later", "service_unavailable"],
    { row: "Service stopped or busy (maintenance)", retryAfter: "5" },
  ),
  tell({ name: "upstream_overloaded" }, [503, unavailable, "service_unavailable"], {
    row: "Upstream overloaded",
    retryAfter: "5",
    formatB: { status: 529, message: "Overloaded" },
  }),
  tell({ name: "not_processable" }, [403, "The request could not be completed", "invalid_request"], {
    row: "Any other unprocessable request",
  }),
  tell({ name: "malformed_request" }, badRequest("The request could not be completed"), {
    row: "Any other unprocessable request",
  }),
  ...videoErrorsOfSpec(),
  tell({ name: "idempotency_key_reused" }, [
    409,
    "This Idempotency-Key was used with another request",
    "invalid_request",
  ]),
  tell({ name: "answer_too_large" }, [
    400,
    "The request could not be completed: the answer is too large, ask for a stream or for less of it",
    "",
  ]),
  tell({ name: "submission_unknown" }, [
    400,
    "The request could not be completed: it is not known whether the model service took the video, " +
      "look for it in the list before you submit another",
    "",
  ]),
];

/** The rows of the table Video generation errors. They are told on /v1/videos only, where the type is Format B's. */
function videoErrorsOfSpec(): SpecError[] {
  const section = "Video generation errors";
  const rejected = "The model service rejected the request, check the parameters and try again";
  const noTask = "Wrong task ID or another account's task";
  return [
    tell(
      { name: "field_invalid", detail: "field seconds must be 4 or 8" },
      badRequest("field seconds must be 4 or 8"),
      {
        section,
        row: "Value such as length or resolution unusable with the model",
      },
    ),
    tell({ name: "video_rejected" }, [400, rejected, "upstream_error"], {
      section,
      row: "Provider rejected the request",
    }),
    tell({ name: "task_not_found" }, [400, "Task not found", "task_not_found"], { section, row: noTask }),
    tell({ name: "task_file_not_found" }, [404, "Task not found", "task_not_found"], { section, row: noTask }),
    tell({ name: "task_not_ready" }, [400, "The video is not ready yet", "task_not_ready"], {
      section,
      row: "File requested before completion",
    }),
    tell({ name: "task_failed" }, [400, "The video generation failed", "task_failed"], {
      section,
      row: "File of a failed task requested",
    }),
    tell({ name: "artifact_gone" }, [410, "Artifact content is no longer available", "artifact_gone"], {
      section,
      row: "Provider no longer keeps the file",
    }),
  ];
}
