/** Work that is planned apart from this; its rows are counted apart, never hidden. */
export type Piece = "video";

/**
 * A row of a table or a numbered rule of the public API spec. `section` is the heading above it, without an address in
 * brackets; `quote` is how the row begins, in the spec's words, cells parted by " | ".
 */
export type SpecRow = { section: string; quote: string; piece?: Piece };

type Quotes = { now?: string[] } & { [piece in Piece]?: string[] };

const sections: Record<string, Quotes> = {
  "What the service does": {
    now: [
      "1. It accepts requests in Format A or Format B, sends them to the upstream API",
      "2. Endpoints cover: conversation generation (three endpoints), model listing, embeddings",
      "3. A model can be called in a format that differs from its provider's format.",
      "4. Streaming answers are forwarded as server-sent events (SSE), in order, without buffering.",
      "5. Use is metered.",
      "6. Every processed response carries a request ID.",
      "Models of the Format B provider",
      "Models of the Format A provider",
      "All other models",
    ],
  },
  "States and transitions": {
    video: [
      "`completed`",
      "`failed`",
      "1. When content is requested before the task is completed, then 400 with code `task_not_ready`.",
      "2. When content is requested for a failed task, then 400 with code `task_failed`.",
      "3. When the provider no longer keeps the file, then content request returns 410 with code `artifact_gone`.",
      "4. Errors returned at submission are free of charge.",
    ],
  },
  Endpoints: {
    now: [
      "`POST /v1/chat/completions`",
      "`POST /v1/responses`",
      "`POST /v1/messages`",
      "`GET /v1/models`",
      "`POST /v1/embeddings`",
      "`POST /v1/completions`",
      "`POST /v1/images/generations`",
      "`POST /v1/audio/speech`",
      "`POST /v1/moderations`",
    ],
    video: ["`POST /v1/videos`", "`GET /v1/videos/{task_id}`", "`GET /v1/videos/{task_id}/content`"],
  },
  "Chat completions request": {
    now: [
      "`model`",
      "`messages`",
      "`stream`",
      "`stream_options`",
      "`max_completion_tokens`",
      "`temperature`, `top_p`",
      "`stop`",
      "`tools`, `tool_choice`",
      "`response_format`",
      "`reasoning_effort`",
    ],
  },
  "Messages request": {
    now: [
      "`model`",
      "`messages`",
      "`max_tokens`",
      "`system`",
      "`stream`",
      "`temperature`, `top_p`, `top_k`",
      "`stop_sequences`",
      "`tools`, `tool_choice`",
      "`thinking`",
      "`metadata`",
    ],
  },
  "Responses request": {
    now: [
      "`model`",
      "`input`",
      "`instructions`",
      "`stream`",
      "`max_output_tokens`",
      "`tools`, `tool_choice`",
      "`reasoning`",
      "`store`",
      "`previous_response_id`",
    ],
  },
  "Conversion between formats": {
    now: [
      "Format B provider's model via `/v1/chat/completions`",
      "Format B provider's or a third provider's model via `/v1/responses`",
      "Format A provider's or a third provider's model via `/v1/messages`",
      "Any | `usage` may contain extra fields",
    ],
  },
  "Not supported or not checked": {
    now: [
      "`POST /v1/messages/count_tokens`",
      "`/v1/files`, `/v1/batches`, fine-tuning",
      "`POST /v1/images/variations`",
      "A third provider's format (`/v1beta/models/...`)",
      "Balance (`/v1/dashboard/billing/...`)",
      "`GET /v1/models/{model_id}`",
      "`POST /v1/responses/compact`",
      "`POST /v1/audio/transcriptions`",
      "`/v1/realtime`",
    ],
  },
  Authentication: {
    now: [
      "A | `{base_url}/v1`",
      "B | `{base_url}`",
      "1. `x-api-key` works only on Format B endpoints",
      "2. Format B also requires the header `provider-version`",
      "3. Only HTTPS is accepted.",
      "4. When the called path has no `/v1`, then HTTP 404",
      "5. When the path has `/v1` twice, then HTTP 404",
      "6. When the key is wrong, missing, stopped, expired, deleted, or has used up its spending limit, then HTTP 401",
      "7. When balance is insufficient, then HTTP 403",
      "8. When the estimated price of a request exceeds the key's remaining spending limit, then HTTP 403",
      "9. Keys, balance and spending limits are managed in the console, not through the API.",
    ],
  },
  Events: { now: ["Chat completions", "Responses", "Messages (Format B)"] },
  Errors: {
    now: ["`/v1/messages`", "All others", "400", "401", "403", "404", "429", "500, 502, 503, 504", "529"],
    video: ["410"],
  },
  Cases: {
    now: [
      "Path without `/v1`",
      "`/v1` twice",
      "Unsupported endpoint",
      "Key invalid, missing, stopped, expired, deleted or limit used up",
      "Insufficient balance",
      "Estimated price above remaining key limit",
      "Wrong or unoffered model ID",
      "Body not valid JSON",
      "Body larger than 128 MB",
      "Required field missing",
      "Input longer than model context length",
      "Account rate limit exceeded",
      "Same-IP rate limit exceeded",
      "Upstream rate limit exceeded",
      "Cannot connect to upstream",
      "Upstream returned an error",
      "Upstream returned non-JSON",
      "Upstream temporarily unavailable, or problem with the service's account at upstream",
      "Service stopped or busy (maintenance)",
      "Upstream overloaded",
      "Any other unprocessable request",
    ],
  },
  "Video generation errors": {
    video: [
      "Value such as length or resolution unusable with the model",
      "Provider rejected the request",
      "Wrong task ID or another account's task",
      "File requested before completion",
      "File of a failed task requested",
      "Provider no longer keeps the file",
    ],
  },
  "Retry guidance": {
    now: [
      "429, 500, 502, 503 (except wrong model ID), 504, 529",
      "1. Retry with an attempt limit and growing waits.",
      "2. When `Retry-After` is present, wait at least that many seconds.",
      "3. A wrong model ID is returned as 503, so it is not retryable.",
      "4. Common client libraries retry 429 and 500-and-above errors 2 times by default.",
    ],
  },
  "Streaming that stops partway": { now: ["Messages", "Chat completions", "Responses"] },
  Limits: {
    now: [
      "Request body size",
      "Account rate limit",
      "Per-IP rate limit",
      "Upstream rate limit",
      "Per-key spending limit",
      "Default `max_tokens`",
    ],
  },
  Versioning: {
    now: [
      "1. All endpoints are under the path prefix `/v1`.",
      "2. Format B requests carry the header `provider-version` with a date string.",
      "3. Available parameters and value ranges differ by model.",
    ],
  },
};

/** Every table row and every numbered rule of the spec. */
export const specRows: SpecRow[] = Object.entries(sections).flatMap(([section, { now = [], ...later }]) => [
  ...now.map((quote) => ({ section, quote })),
  ...Object.entries(later).flatMap(([piece, quotes]) =>
    quotes.map((quote) => ({ section, quote, piece: piece as Piece })),
  ),
]);

/** What the name of a test must contain to stand for a row. */
export function titleOf({ section, quote }: SpecRow): string {
  return `API spec, ${section}: ${quote}`;
}
