import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { DialectName } from "./dialects/dialect.ts";
import { dialects } from "./dialects/index.ts";
import { videoErrors } from "./dialects/video-error.ts";
import { CallFailure, failures, renderFailure, type Failure, type FailureName } from "./failures.ts";
import { respondFailure, statusOfFailure } from "./http/respond.ts";
import { serveHttp } from "./testing/raw-client.ts";
import { specErrors, typesByStatus } from "./testing/spec-errors.ts";

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

// That a case ends in its failure is proven where the case is made; only tests there are named after clauses.
for (const { row = "beside the spec's cases", failure, formatA, formatB } of specErrors) {
  test(`${row}: ${failure.name} is told in both formats`, async () => {
    const inA = await tell(failure, "openai-chat");
    assert.deepEqual([inA.answer.status, inA.retryAfter], [formatA.status, formatA.retryAfter ?? null]);
    const { message, code, type } = formatA;
    assert.deepEqual(inA.body, { error: { message, type, param: "", code } });

    const inB = await tell(failure, "anthropic-messages");
    assert.deepEqual([inB.answer.status, inB.retryAfter], [formatB.status, formatB.retryAfter ?? null]);
    assert.deepEqual(inB.body, { type: "error", error: { type: formatB.type, message: formatB.message } });
  });
}

test("every failure that the relay can tell has its row here", () => {
  const tested = new Set(specErrors.map(({ failure }) => failure.name));
  assert.deepEqual([...tested].toSorted(), Object.keys(failures).toSorted());
});

const statuses: { row: string; statuses: number[]; type: string; codes: string[] }[] = [
  {
    row: "400",
    statuses: [400],
    type: "invalid_request_error",
    codes: ["", "invalid_request", "task_not_found", "task_not_ready", "task_failed", "upstream_error"],
  },
  { row: "401", statuses: [401], type: "authentication_error", codes: [""] },
  { row: "403", statuses: [403], type: "permission_error", codes: ["invalid_request", "insufficient_quota"] },
  { row: "404", statuses: [404], type: "not_found_error", codes: ["", "task_not_found"] },
  // Format B has none: it is told on /v1/videos only.
  { row: "410", statuses: [410], type: "not_found_error", codes: ["artifact_gone"] },
  { row: "429", statuses: [429], type: "rate_limit_error", codes: ["rate_limit_exceeded"] },
  {
    row: "500, 502, 503, 504",
    statuses: [500, 502, 503, 504],
    type: "api_error",
    codes: ["server_error", "service_unavailable", "model_not_found"],
  },
  { row: "529", statuses: [529], type: "overloaded_error", codes: [] },
];

const namedCodes = (codes: string[]): string =>
  codes.map((code) => (code === "" ? "empty string" : `\`${code}\``)).join(", ");

for (const { row, statuses: ruled, type, codes } of statuses) {
  const told = `\`${type}\` | ${namedCodes(codes)}${row === "403" ? " (balance or spending limit)" : ""}`;
  test(`API spec, Errors: ${row} | ${told}`, () => {
    const names = Object.keys(failures) as FailureName[];
    const inB = names.map((name) => renderFailure({ name }, "B")).filter(({ status }) => ruled.includes(status));
    assert.deepEqual(new Set(inB.map(({ status }) => status)), new Set(ruled), "some failure has each status");
    for (const rendered of inB) assert.equal(rendered.type, type, rendered.message);
    const inA = names.map((name) => renderFailure({ name }, "A")).filter(({ status }) => ruled.includes(status));
    assert.deepEqual(new Set(inA.map(({ code }) => code)), new Set(codes));
  });
}

const videoRules: Record<number, string> = {
  400: "`invalid_request_error` for 400",
  401: "`authentication_error` 401",
  403: "`permission_error` 403",
  404: "`not_found_error` 404 and 410",
  410: "`not_found_error` 404 and 410",
};

for (const { failure, formatA } of specErrors) {
  const rule = videoRules[formatA.status] ?? (formatA.status >= 500 ? "`api_error` for 500 and above" : "");
  test(`API spec, Errors: Rules: on /v1/videos ${rule} (${failure.name})`, () => {
    const { status, message, code } = formatA;
    const { upstreamType: _, ...told } = failure;
    const written: unknown = JSON.parse(videoErrors.writeError(renderFailure(told, videoErrors.format)));
    const type = typesByStatus[status] ?? "api_error";
    assert.deepEqual(written, { error: { message, type, param: "", code } });
  });
}

test("API spec, Errors: Rules: `error.type` is mostly `api_error` for errors the service returns", () => {
  for (const name of Object.keys(failures) as FailureName[]) {
    const written = JSON.parse(dialects["openai-chat"].writeError(renderFailure({ name }, "A"))) as unknown;
    assert.equal((written as { error: { type: string } }).error.type, "api_error", name);
  }
});

test("the relay tells no status that the spec does not know, but 409 for an Idempotency-Key, which it does not know", () => {
  const known = new Set([409, ...statuses.flatMap(({ statuses: ruled }) => ruled)]);
  for (const name of Object.keys(failures) as FailureName[]) {
    for (const format of ["A", "B"] as const) assert.ok(known.has(renderFailure({ name }, format).status), name);
  }
});

test("API spec, What the service does: 6. Every processed response carries a request ID. Failures do too, under both names", async () => {
  const { answer } = await tell({ name: "balance" }, "openai-chat");
  assert.deepEqual([answer.headers.get("x-request-id"), answer.headers.get("request-id")], ["rid-1", "rid-1"]);
  assert.equal(answer.headers.get("content-type"), "application/json");
});

test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. Official clients are told so", async () => {
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
    const told = Object.values(dialects).map((dialect) => [
      dialect.name,
      statusOfFailure(response, overloaded, dialect),
    ]);
    response.end(JSON.stringify(told));
  });
  const answer = await fetch(`http://127.0.0.1:${listener.port}/`);
  const told = (await answer.json()) as [DialectName, number][];
  for (const [name, status] of told) assert.equal(status, name === "anthropic-messages" ? 529 : 503, name);
});

test("a failure that is thrown keeps its cause for the log and its name as message", () => {
  const thrown = new CallFailure({ name: "upstream_invalid", cause: "why" });
  assert.deepEqual([thrown.message, thrown.cause], ["upstream_invalid", "why"]);
});
