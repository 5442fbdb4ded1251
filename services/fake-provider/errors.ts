import type { Behaviour } from "./behaviour.ts";
import type { FakeDialect } from "./dialect.ts";

type ErrorFields = NonNullable<Behaviour["error"]>;
type ErrorRow = { type: string; code: string | null; message: string; param?: string };

const chatErrors: Record<number, ErrorRow> = {
  400: {
    type: "invalid_request_error",
    code: "context_length_exceeded",
    message: "This model's maximum context length is 128000 tokens, but the messages hold 130512 tokens.",
    param: "messages",
  },
  401: { type: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided: sk-fake." },
  403: { type: "request_forbidden", code: "unsupported_country_region_territory", message: "Region not supported." },
  404: { type: "invalid_request_error", code: "model_not_found", message: "The model does not exist." },
  409: { type: "conflict", code: null, message: "The resource was changed by another request." },
  413: { type: "invalid_request_error", code: null, message: "The request is too large." },
  422: { type: "invalid_request_error", code: null, message: "The request could not be processed." },
  429: { type: "rate_limit_error", code: "rate_limit_exceeded", message: "Rate limit reached for requests." },
  500: { type: "server_error", code: null, message: "The server had an error while processing the request." },
  503: { type: "service_unavailable_error", code: "server_is_overloaded", message: "The servers are overloaded." },
};

const messagesErrors: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  413: "request_too_large",
  422: "invalid_request_error",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

const messagesWords: Record<number, string> = {
  400: "prompt is too long: 210512 tokens > 200000 maximum",
  401: "invalid x-api-key",
  404: "model: not found",
  413: "Request exceeds the maximum size",
  429: "This request would exceed the rate limit",
  529: "Overloaded",
};

const geminiStatuses: Record<number, string> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

const geminiWords: Record<number, string> = {
  400: "The input token count (1300512) exceeds the maximum number of tokens allowed (1048576).",
  404: "models/fake is not found for API version v1beta, or is not supported for generateContent.",
  429: "You exceeded your current quota, please check your plan and billing details.",
  503: "The model is overloaded. Please try again later.",
};

/** The body of a provider's error, in the shape of its dialect; fields of `override` replace the usual ones. */
export function renderError(
  dialect: FakeDialect,
  { status, override, requestId }: { status: number; override: ErrorFields | undefined; requestId: string },
): string {
  if (dialect === "messages") {
    const type = override?.type ?? messagesErrors[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
    const message = override?.message ?? messagesWords[status] ?? "Internal server error";
    return JSON.stringify({ type: "error", error: { type, message }, request_id: requestId });
  }
  if (dialect === "gemini") return renderGeminiError(status, override);
  const row = chatErrors[status] ?? (chatErrors[status < 500 ? 422 : 500] as ErrorRow);
  const { message, type, param, code } = { param: null, ...row, ...override };
  return `${JSON.stringify({ error: { message, type, param, code } }, null, 2)}\n`;
}

function renderGeminiError(code: number, override: ErrorFields | undefined): string {
  const status = override?.type ?? geminiStatuses[code] ?? (code < 500 ? "FAILED_PRECONDITION" : "INTERNAL");
  const message = override?.message ?? geminiWords[code] ?? "An internal error has occurred.";
  const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" };
  const details = code === 429 ? { details: [retryInfo] } : {};
  return `${JSON.stringify({ error: { code, message, status, ...details } }, null, 2)}\n`;
}

/** What a proxy between here and the provider answers when it fails. */
export function renderHtml(status: number): string {
  const words = status === 200 ? "Welcome" : `${status} Bad Gateway`;
  const page = `<head><title>${words}</title></head>\r\n<body>\r\n<center><h1>${words}</h1></center>\r\n</body>`;
  return `<html>\r\n${page}\r\n</html>\r\n`;
}
