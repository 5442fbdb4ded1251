import assert from "node:assert/strict";
import { test } from "node:test";
import { dialects } from "../dialects/index.ts";
import type { Failure, FailureName } from "../failures.ts";
import { upstreamOf } from "../testing/fakes.ts";
import { cleanerOf, upstreamFailure } from "./failure.ts";

const chat = dialects["openai-chat"];
const messages = dialects["anthropic-messages"];
const upstream = upstreamOf({
  credential: "our-own-credential",
  baseUrl: new URL("https://llm-7.internal.example:8443/base"),
  headers: ["OpenAI-Organization", "organisation-of-ours", "X-Region", "eu"],
  proxy: new URL("http://proxyuser:p%40ssphrase@proxy.internal.example:3128"),
  tls: { servername: "llm.tls-name.example" },
});
const errorOf = (message: string, type = "a_type", code: string | null = "a_code") => ({
  error: { message, type, code },
});
const said = (message: string): string | undefined => upstreamFailure(400, errorOf(message), chat, upstream).detail;

const mapping: [string, number[], FailureName][] = [
  ["Upstream rate limit exceeded | 429", [429], "upstream_rate"],
  ["upstream 401/402/403 (our account) -> 503, Retry-After 60", [401, 402, 403], "upstream_account"],
  ["Upstream overloaded: in Format A 503, in Format B 529", [529], "upstream_overloaded"],
  ["Upstream temporarily unavailable | 503", [503], "upstream_unavailable"],
  ["Upstream timeout -> 504", [504, 408], "upstream_timeout"],
  ["Upstream 400/404/413/422 -> 400 with upstream wording and code", [400, 404, 409, 413, 422], "upstream_refused"],
  ["Upstream returned an error | 500 | Upstream wording", [500, 501, 520], "upstream_error"],
];

for (const [row, statuses, name] of mapping) {
  for (const status of statuses) {
    test(`${row}: ${status}`, () => {
      assert.equal(upstreamFailure(status, errorOf("words"), chat, upstream).name, name);
      const inB = { type: "error", error: { type: "x_error", message: "words" } };
      assert.equal(upstreamFailure(status, inB, messages, upstream).name, name);
    });
  }
}

test("an overloaded_error is overload whatever its status", () => {
  const body = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  assert.equal(upstreamFailure(500, body, messages, upstream).name, "upstream_overloaded");
});

test("429 insufficient_quota is a problem with the service's account at upstream, not a rate limit of the caller", () => {
  const body = errorOf("You exceeded your current quota", "insufficient_quota", "insufficient_quota");
  assert.equal(upstreamFailure(429, body, chat, upstream).name, "upstream_account");
});

const ofAnthropic = (error_code: string, more: object = {}): object => ({
  type: "error",
  error: { type: "invalid_request_error", message: "words", details: { error_code, ...more } },
});

for (const [status, code] of [
  [400, "organization_on_hold"],
  [400, "cmek_key_disabled"],
  [429, "contract_spend_limit_reached"],
  [429, "enforced_spend_limit_reached"],
] as const) {
  test(`${status} ${code} of Anthropic is a problem with the service's account, not the caller's`, () => {
    assert.equal(upstreamFailure(status, ofAnthropic(code), messages, upstream).name, "upstream_account");
  });
}

test("the details by which clients of Format B know an error pass, without our insides", () => {
  const limit = { max_side_length_pixels: 2_000, paths: ["messages.0.content.1"] };
  const told = { ...limit, note: "ask llm-7.internal.example:8443" };
  const refused = upstreamFailure(400, ofAnthropic("image_dimensions_too_large", told), messages, upstream);
  const error_code = "image_dimensions_too_large";
  assert.deepEqual([refused.name, refused.code], ["upstream_refused", error_code]);
  assert.deepEqual(refused.details, { error_code, ...limit, note: "ask [hidden]" });
  const long = upstreamFailure(400, ofAnthropic(error_code, { paths: ["x".repeat(5_000)] }), messages, upstream);
  assert.deepEqual(long.details, { error_code });
});

test("Upstream returned non-JSON | 502: an error body that is none, at statuses that have no words of their own", () => {
  for (const body of [undefined, null, {}, "<html>", { error: {} }]) {
    for (const status of [400, 404, 500, 502]) {
      assert.equal(upstreamFailure(status, body, chat, upstream).name, "upstream_invalid", `${status}`);
    }
    assert.equal(upstreamFailure(429, body, chat, upstream).name, "upstream_rate");
    assert.equal(upstreamFailure(503, body, chat, upstream).name, "upstream_unavailable");
  }
});

test("a status that is neither an answer nor an error is an invalid response", () => {
  for (const status of [204, 302]) {
    assert.equal(upstreamFailure(status, errorOf("words"), chat, upstream).name, "upstream_invalid");
  }
});

test("API spec, Errors: Rules: passed-through upstream errors carry the upstream value. Upstream errors may carry the upstream's wording in `message`", () => {
  const refused: Failure = upstreamFailure(400, errorOf("Too long", "bad", "context_length_exceeded"), chat, upstream);
  assert.deepEqual(
    [refused.detail, refused.code, refused.upstreamType],
    ["Too long", "context_length_exceeded", "bad"],
  );
  const failed = upstreamFailure(500, errorOf("It broke", "server_error"), chat, upstream);
  assert.deepEqual([failed.detail, failed.upstreamType], ["It broke", "server_error"]);
});

test("API spec, Errors: Rules: passed-through upstream errors carry the upstream value, `error.param` too, without our insides", () => {
  const body = (param: string) => ({ error: { message: "no", type: "bad", param, code: "c" } });
  for (const status of [400, 500]) {
    assert.equal(upstreamFailure(status, body("tools[0].name"), chat, upstream).param, "tools[0].name");
    assert.equal(upstreamFailure(status, body("our-own-credential"), chat, upstream).param, "[hidden]");
    assert.equal(upstreamFailure(status, body("x".repeat(5_000)), chat, upstream).param?.length, 100);
    assert.equal(upstreamFailure(status, errorOf("no"), chat, upstream).param, undefined);
  }
  assert.equal(upstreamFailure(429, body("messages"), chat, upstream).param, undefined);
});

test("trouble with our account, rate limits and overload never show the upstream's wording", () => {
  for (const status of [401, 402, 403, 429, 503, 529]) {
    const failure = upstreamFailure(status, errorOf("Your organization owes us money"), chat, upstream);
    assert.deepEqual([failure.detail, failure.code, failure.upstreamType], [undefined, undefined, undefined]);
  }
});

const secrets: [string, string, string][] = [
  ["our credential", "bad key our-own-credential!", "bad key [hidden]!"],
  [
    "a key in a provider's way of masking it",
    "Incorrect key provided: sk-proj-abc****wxyz.",
    "Incorrect key provided: [hidden].",
  ],
  ["our organisation", "in organization org-AbC123xyz on tokens", "in organization [hidden] on tokens"],
  ["our project", "project proj-1234567 has no access", "project [hidden] has no access"],
  ["our host with its port", "connect to llm-7.internal.example:8443 failed", "connect to [hidden] failed"],
  ["our host alone", "cannot resolve llm-7.internal.example now", "cannot resolve [hidden] now"],
  ["our own headers", "unknown organisation-of-ours here", "unknown [hidden] here"],
  ["the user of our proxy", "proxyuser is not allowed", "[hidden] is not allowed"],
  ["the password of our proxy, written both ways", "p@ssphrase or p%40ssphrase", "[hidden] or [hidden]"],
  ["our proxy's host", "proxy.internal.example:3128 and proxy.internal.example", "[hidden] and [hidden]"],
  ["the name that we ask for in TLS", "no llm.tls-name.example here", "no [hidden] here"],
  ["any address", "see https://vendor.example/help?x=1, or (http://10.0.0.1/x)", "see [hidden] or ([hidden])"],
];

for (const [what, message, shown] of secrets) {
  test(`callers do not see ${what}`, () => assert.equal(said(message), shown));
}

test("ordinary words stay as they are, also where a short header value is among them", () => {
  const message = "This model's maximum context length is 8192 tokens. However, neurons requested 9000 (8000 + 1000).";
  assert.equal(said(message), message);
});

test("code and type are cleaned like the message, and are short", () => {
  const error = errorOf("words", "of our-own-credential", `${"x".repeat(91)} llm-7.internal.example ${"y".repeat(50)}`);
  const failure = upstreamFailure(400, error, chat, upstream);
  assert.equal(failure.upstreamType, "of [hidden]");
  assert.equal(failure.code, `${"x".repeat(91)} [hidden]`);
});

test("control characters of an upstream reach neither callers nor the log: no header, no terminal obeys them", () => {
  const nasty = "a\u0000b\r\nX-Injected: 1\u001b[2Jc\u009b31md\u202ee\tf";
  const failure = upstreamFailure(400, errorOf(nasty, nasty, nasty), chat, upstream);
  const { error } = failure.cause as { error: Record<string, string> };
  const event = cleanerOf(upstream)({ message: nasty, type: nasty, code: nasty, param: nasty });
  const told = [failure.detail, failure.upstreamType, failure.code, ...Object.values(error), ...Object.values(event)];
  assert.deepEqual(new Set(told), new Set(["a b \nX-Injected: 1 [2Jc 31md e\tf"]));
});

test("the log is told the upstream's words and where they came from, but no secret", () => {
  const message = "our-own-credential and organisation-of-ours at llm-7.internal.example, p@ssphrase";
  const { cause } = upstreamFailure(401, errorOf(message), chat, upstream);
  const told = { message: "[hidden] and [hidden] at llm-7.internal.example, [hidden]", type: "a_type", code: "a_code" };
  assert.deepEqual(cause, { status: 401, error: told });
});

// Providers say these with statuses that else mean a mistake of the caller or a limit of the rate.
const accountTrouble: [number, string, string, string | null][] = [
  [400, "Your credit balance is too low to access the API.", "invalid_request_error", null],
  [400, "You have reached your specified API usage limits.", "invalid_request_error", null],
  [400, "Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"],
  [429, "Your account is not active, please check your billing details.", "billing_not_active", "billing_not_active"],
  [404, "Not allowed", "permission_error", null],
  [400, "API key not valid", "invalid_request_error", "invalid_api_key"],
  [500, "Billing", "billing_error", null],
];

for (const [status, message, type, code] of accountTrouble) {
  test(`trouble with our account at upstream is told as such and in no words of its own: ${status} ${message}`, () => {
    const failure = upstreamFailure(status, errorOf(message, type, code), chat, upstream);
    assert.equal(failure.name, "upstream_account");
    assert.deepEqual([failure.detail, failure.code, failure.upstreamType], [undefined, undefined, undefined]);
  });
}

test("a caller whose own words are repeated cannot make an upstream look out of money", () => {
  const message = "Invalid value: 'Your credit balance is too low'.";
  assert.equal(upstreamFailure(400, errorOf(message), chat, upstream).name, "upstream_refused");
});

test("an error within a stream is cleaned like any other, and says nothing of our account", () => {
  const clean = cleanerOf(upstream);
  const [message, type, code] = ["at llm-7.internal.example", "server_error", "our-own-credential"];
  assert.deepEqual(clean({ message, type, code }), { message: "at [hidden]", type, code: "[hidden]" });
  const spec = "The model service is temporarily unavailable, please try again later";
  for (const secretive of [
    { message: "You exceeded your quota", type: "insufficient_quota", code: undefined },
    { message: "", type: undefined, code: undefined },
  ]) {
    assert.deepEqual(clean(secretive), { message: spec, type: "api_error", code: "server_error" });
  }
});

test("wording is cut at 2,000 characters, and a secret at the edge is hidden whole before", () => {
  assert.equal(said("x".repeat(5_000))?.length, 2_000);
  for (const secret of ["our-own-credential", "sk-abcdefghijklmnop", "llm-7.internal.example:8443"]) {
    for (const shownPart of [3, 5, 8, 12]) {
      const words = said(`${". ".repeat(1_000).slice(0, 2_000 - shownPart)}${secret} and more`) ?? "";
      assert.ok(words.length <= 2_000);
      assert.ok(!words.includes(secret.slice(0, shownPart)), `${shownPart} characters of ${secret}`);
    }
  }
});
