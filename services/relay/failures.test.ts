import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { DialectName } from "./dialects/dialect.ts";
import { dialects } from "./dialects/index.ts";
import { CallFailure, failures, renderFailure, type Failure, type FailureName } from "./failures.ts";
import { respondFailure, statusOfFailure } from "./respond.ts";
import { serveHttp } from "./testing/raw-client.ts";

type Told = { status: number; message: string; retryAfter: string | null };
type Row = {
  /** The row of the API spec's table "Cases", or the sentence that rules it. */
  row: string;
  failure: Failure;
  formatA: Told & { code: string; type?: string };
  formatB: Told & { type: string };
};

const unavailable = "The model service is temporarily unavailable, please try again later";
const limited = "Rate limit exceeded for your account, please retry after 60 seconds";
const limitedByIp =
  "Too many requests from your IP address, please retry after the number of seconds in the Retry-After header";
const limitedUpstream = "The model service is temporarily rate limited, please retry after 60 seconds";

/** The same status, words and waiting in both formats. */
function alike(told: Told, code: string, type: string): Pick<Row, "formatA" | "formatB"> {
  return { formatA: { ...told, code }, formatB: { ...told, type } };
}
const plain = (status: number, message: string, retryAfter: number | null = null): Told => ({
  status,
  message,
  retryAfter: retryAfter === null ? null : String(retryAfter),
});

const rows: Row[] = [
  {
    row: "`/v1` twice, Unsupported endpoint | 404 | `Invalid URL (POST /v1/v1/...)`",
    failure: { name: "invalid_url", detail: "POST /v1/v1/messages" },
    ...alike(plain(404, "Invalid URL (POST /v1/v1/messages)"), "", "not_found_error"),
  },
  {
    row: "Key invalid, missing, stopped, expired, deleted or limit used up | 401 | `Invalid API key`",
    failure: { name: "key_invalid" },
    ...alike(plain(401, "Invalid API key"), "", "authentication_error"),
  },
  {
    row: "Insufficient balance | 403 | `Insufficient balance`",
    failure: { name: "balance" },
    ...alike(plain(403, "Insufficient balance"), "insufficient_quota", "permission_error"),
  },
  {
    row: "Estimated price above remaining key limit | 403 | `This API key has reached its spending limit`",
    failure: { name: "key_limit" },
    ...alike(plain(403, "This API key has reached its spending limit"), "insufficient_quota", "permission_error"),
  },
  {
    row: "Wrong or unoffered model ID | 503 | `The model <model_id> does not exist or is not available` (code `model_not_found` in Format A)",
    failure: { name: "model_unavailable", detail: "gpt-$&-{detail}" },
    ...alike(
      plain(503, "The model gpt-$&-{detail} does not exist or is not available"),
      "model_not_found",
      "api_error",
    ),
  },
  {
    row: "Body not valid JSON | 400 | `Invalid request: invalid JSON request body`",
    failure: { name: "invalid_json" },
    ...alike(plain(400, "Invalid request: invalid JSON request body"), "invalid_request", "invalid_request_error"),
  },
  {
    row: "Body larger than 128 MB | 400 | `Invalid request: request body exceeds 128 MB: request body too large`",
    failure: { name: "body_too_large" },
    ...alike(
      plain(400, "Invalid request: request body exceeds 128 MB: request body too large"),
      "invalid_request",
      "invalid_request_error",
    ),
  },
  {
    row: "Required field missing | 400 | Text naming the field, such as `field messages is required`",
    failure: { name: "field_required", detail: "messages" },
    ...alike(plain(400, "field messages is required"), "invalid_request", "invalid_request_error"),
  },
  {
    row: "HTTP status 400 | `invalid_request_error` | `invalid_request`: a field of the wrong kind, in our words",
    failure: { name: "field_invalid", detail: "field model must be a string" },
    ...alike(plain(400, "field model must be a string"), "invalid_request", "invalid_request_error"),
  },
  {
    row: "Input longer than model context length | 400 | Upstream wording",
    failure: { name: "upstream_refused", detail: "Too long", code: "context_length_exceeded", upstreamType: "bad" },
    formatA: { ...plain(400, "Too long"), code: "context_length_exceeded", type: "bad" },
    formatB: { ...plain(400, "Too long"), type: "invalid_request_error" },
  },
  {
    row: "Account rate limit exceeded | 429 | `Rate limit exceeded for your account, please retry after 60 seconds`",
    failure: { name: "account_rate" },
    ...alike(plain(429, limited, 60), "rate_limit_exceeded", "rate_limit_error"),
  },
  {
    row: "Same-IP rate limit exceeded | 429 | `Too many requests from your IP address, ...`, Retry-After the seconds to wait",
    failure: { name: "ip_rate", retryAfterSeconds: 17 },
    ...alike(plain(429, limitedByIp, 17), "rate_limit_exceeded", "rate_limit_error"),
  },
  {
    row: "Upstream rate limit exceeded | 429 | `The model service is temporarily rate limited, please retry after 60 seconds`",
    failure: { name: "upstream_rate" },
    ...alike(plain(429, limitedUpstream, 60), "rate_limit_exceeded", "rate_limit_error"),
  },
  {
    row: "Cannot connect to upstream | 500 | `The model service is temporarily unavailable, please try again later`",
    failure: { name: "upstream_unreachable" },
    ...alike(plain(500, unavailable), "server_error", "api_error"),
  },
  {
    row: "Upstream returned an error | 500 | Upstream wording",
    failure: { name: "upstream_error", detail: "It broke", upstreamType: "server_error" },
    formatA: { ...plain(500, "It broke"), code: "server_error", type: "server_error" },
    formatB: { ...plain(500, "It broke"), type: "api_error" },
  },
  {
    row: "Upstream returned non-JSON | 502 | Format B: `... returned an error (HTTP 502), ...`; Format A: `... returned an invalid response, ...`",
    failure: { name: "upstream_invalid" },
    formatA: {
      ...plain(502, "The model service returned an invalid response, please try again later"),
      code: "server_error",
    },
    formatB: {
      ...plain(502, "The model service returned an error (HTTP 502), please try again later"),
      type: "api_error",
    },
  },
  {
    row: "Upstream temporarily unavailable | 503 | `The model service is temporarily unavailable, please try again later`, Retry-After 5",
    failure: { name: "upstream_unavailable" },
    ...alike(plain(503, unavailable, 5), "service_unavailable", "api_error"),
  },
  {
    row: "problem with the service's account at upstream | 503 | ..., Retry-After 60",
    failure: { name: "upstream_account" },
    ...alike(plain(503, unavailable, 60), "service_unavailable", "api_error"),
  },
  {
    row: "Upstream timeout -> 504 `api_error` / `server_error`",
    failure: { name: "upstream_timeout" },
    ...alike(plain(504, unavailable), "server_error", "api_error"),
  },
  {
    row: "Upstream overloaded | 529 | `Overloaded` (Format B); in Format A 503 `service_unavailable`, Retry-After 5",
    failure: { name: "upstream_overloaded" },
    formatA: { ...plain(503, unavailable, 5), code: "service_unavailable" },
    formatB: { ...plain(529, "Overloaded", 5), type: "overloaded_error" },
  },
  {
    row: "Service stopped or busy (maintenance) | 503 | `The service is temporarily unavailable, please try again later`, Retry-After 5",
    failure: { name: "service_unavailable" },
    ...alike(
      plain(503, "The service is temporarily unavailable, please try again later", 5),
      "service_unavailable",
      "api_error",
    ),
  },
  {
    row: "Any other unprocessable request | 400 or 403 | `The request could not be completed`",
    failure: { name: "not_processable" },
    ...alike(plain(403, "The request could not be completed"), "invalid_request", "permission_error"),
  },
];

let server: Awaited<ReturnType<typeof serveHttp>>;
let current: { failure: Failure; dialect: DialectName };
before(async () => {
  server = await serveHttp((_request, response) => {
    respondFailure(response, { rid: "rid-1", failure: current.failure, dialect: dialects[current.dialect] });
  });
});
after(() => server[Symbol.asyncDispose]());

/** What a caller gets over the wire. */
async function tell(failure: Failure, dialect: DialectName) {
  current = { failure, dialect };
  const answer = await fetch(`http://127.0.0.1:${server.port}/`);
  return { answer, body: (await answer.json()) as unknown, retryAfter: answer.headers.get("retry-after") };
}

for (const { row, failure, formatA, formatB } of rows) {
  test(`API spec, Cases: ${row}`, async () => {
    const inA = await tell(failure, "openai-chat");
    assert.deepEqual([inA.answer.status, inA.retryAfter], [formatA.status, formatA.retryAfter]);
    const { message, code, type = "api_error" } = formatA;
    assert.deepEqual(inA.body, { error: { message, type, param: "", code } });

    const inB = await tell(failure, "anthropic-messages");
    assert.deepEqual([inB.answer.status, inB.retryAfter], [formatB.status, formatB.retryAfter]);
    assert.deepEqual(inB.body, { type: "error", error: { type: formatB.type, message: formatB.message } });
  });
}

test("every failure that the relay can tell has its row here", () => {
  const tested = rows.map(({ failure }) => failure.name);
  assert.deepEqual(tested.toSorted(), Object.keys(failures).toSorted());
});

test("API spec, Errors: the status decides error.type in Format B and the values of error.code in Format A", () => {
  const types: Record<number, string> = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
  };
  const codes: Record<number, string[]> = {
    400: ["", "invalid_request"],
    401: [""],
    403: ["insufficient_quota", "invalid_request"],
    404: [""],
    429: ["rate_limit_exceeded"],
  };
  for (const name of Object.keys(failures) as FailureName[]) {
    const inB = renderFailure({ name }, "B");
    assert.equal(inB.type, types[inB.status] ?? "api_error", name);
    const inA = renderFailure({ name }, "A");
    const known = codes[inA.status] ?? ["server_error", "service_unavailable", "model_not_found"];
    assert.ok(known.includes(inA.code), `${name}: ${inA.status} ${inA.code}`);
    assert.notEqual(inA.status, 529, "Format A has no 529");
  }
});

test("API spec, Request ID: both headers carry the same value on a failure too", async () => {
  const { answer } = await tell({ name: "balance" }, "openai-chat");
  assert.deepEqual([answer.headers.get("x-request-id"), answer.headers.get("request-id")], ["rid-1", "rid-1"]);
  assert.equal(answer.headers.get("content-type"), "application/json");
});

test("API spec, Retry guidance: a wrong model ID is returned as 503, so official clients are told not to retry it", async () => {
  for (const dialect of ["openai-chat", "anthropic-messages"] as const) {
    const wrongModel = await tell({ name: "model_unavailable", detail: "x" }, dialect);
    assert.equal(wrongModel.answer.headers.get("x-should-retry"), "false");
    const busy = await tell({ name: "service_unavailable" }, dialect);
    assert.equal(busy.answer.headers.get("x-should-retry"), null);
  }
});

test("the status that the ledger keeps is the one that the caller of this format was told", async () => {
  await using listener = await serveHttp((_request, response) => {
    const overloaded: Failure = { name: "upstream_overloaded" };
    const statuses = Object.values(dialects).map((dialect) => statusOfFailure(response, overloaded, dialect));
    response.end(JSON.stringify(statuses));
  });
  const answer = await fetch(`http://127.0.0.1:${listener.port}/`);
  assert.deepEqual(await answer.json(), [503, 529]);
});

test("a failure that is thrown keeps its cause for the log and its name as message", () => {
  const thrown = new CallFailure({ name: "upstream_invalid", cause: "why" });
  assert.deepEqual([thrown.message, thrown.cause], ["upstream_invalid", "why"]);
});
