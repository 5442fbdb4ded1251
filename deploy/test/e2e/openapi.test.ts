import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { httpDialects } from "../../../services/relay/dialects/index.ts";
import { type Answer, answerProblems, compileAt, document, requestProblems, resolve } from "./openapi.ts";

/** Every value below `value` with the steps that lead to it. */
function* walk(value: unknown, steps: string[] = []): Generator<{ steps: string[]; value: unknown }> {
  yield { steps, value };
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) yield* walk(inner, [...steps, key]);
}

const everything = [...walk(document)];
const endingIn = (key: string) => everything.filter(({ steps }) => steps.at(-1) === key);

describe("the OpenAPI document of the public API", () => {
  test("every reference leads somewhere in it, and nothing that is named is left unused", () => {
    const references = new Set(endingIn("$ref").map(({ value }) => String(value)));
    for (const reference of references) assert.ok(resolve(reference), reference);
    const named = Object.entries(document.components)
      .filter(([kind]) => kind !== "securitySchemes")
      .flatMap(([kind, entries]) => Object.keys(entries).map((name) => `#/components/${kind}/${name}`));
    // Paths that are not described have no place that could refer to them.
    const unused = named.filter((name) => !references.has(name) && !name.includes("/NotFound"));
    assert.deepEqual(unused, []);
  });

  test("API spec, Events: The service emits no event other than streamed response events", () => {
    assert.deepEqual([...endingIn("callbacks"), ...endingIn("webhooks")], []);
  });

  test("every schema is a valid JSON Schema", () => {
    const schemas = [...endingIn("schema"), ...endingIn("x-event")].map(({ steps }) => steps);
    const names = Object.keys(document.components.schemas).map((name) => ["components", "schemas", name]);
    assert.ok(schemas.length > 50 && names.length > 30);
    for (const steps of [...schemas, ...names]) assert.doesNotThrow(() => compileAt(steps), steps.join("/"));
  });

  test("its endpoints are the relay's: every dialect by POST, the models and the videos", () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const served = httpDialects.map(({ path }) => `POST ${path}`);
    const others = [
      "POST /v1/realtime/client_secrets",
      "GET /v1/models",
      "GET /v1/models/{model_id}",
      "POST /v1/videos",
      "GET /v1/videos",
      "GET /v1/videos/{task_id}",
      "DELETE /v1/videos/{task_id}",
      "GET /v1/videos/{task_id}/content",
    ];
    assert.deepEqual(described.toSorted(), [...served, ...others].toSorted());
  });

  test("a request's required fields are those that the relay asks for", () => {
    for (const { path, requiredFields, takesForm } of httpDialects) {
      const type = takesForm ? "multipart~1form-data" : "application~1json";
      const place = `#/paths/${path.replaceAll("/", "~1")}/post/requestBody/content/${type}/schema/$ref`;
      const schema = resolve(String(resolve(place))) as { required: string[] };
      assert.deepEqual(schema.required.toSorted(), [...requiredFields].toSorted(), path);
    }
  });

  test("every operation has an id of its own, a summary, a known tag and security", () => {
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods)) as unknown as {
      operationId: string;
      summary: string;
      tags: string[];
      security: Record<string, unknown>[];
    }[];
    const { tags, components } = document as unknown as {
      tags: { name: string }[];
      components: { securitySchemes: object };
    };
    const known = tags.map(({ name }) => name);
    assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length);
    for (const { summary, tags: used, security } of operations) {
      assert.match(summary, /^[A-Z].+\.$/);
      assert.ok(used.length === 1 && known.includes(used[0] ?? ""));
      for (const scheme of security.flatMap((choice) => Object.keys(choice)))
        assert.ok(scheme in components.securitySchemes, scheme);
    }
  });
});

const rid = "019a0000-0000-7000-8000-000000000000";

function answer(
  change: Omit<Partial<Answer>, "headers"> & { headers?: Record<string, string>; body?: unknown },
): Answer {
  const { headers, body, ...rest } = change;
  const named = { "content-type": "application/json", "x-request-id": rid, "request-id": rid, ...headers };
  return {
    method: "POST",
    path: "/v1/chat/completions",
    status: 200,
    text: JSON.stringify(body),
    ...rest,
    headers: new Headers(named),
  };
}

const errorA = (code: string) => ({ error: { message: "m", type: "api_error", param: "", code } });
const errorB = (type: string) => ({ type: "error", error: { type, message: "m" } });
const choice = { index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" };
const completion = { id: "c", object: "chat.completion", created: 1, model: "m", choices: [choice] };
const chunk = { ...completion, object: "chat.completion.chunk", choices: [{ index: 0, delta: { content: "Hi" } }] };
const stream = (...data: unknown[]): Parameters<typeof answer>[0] => ({
  headers: { "content-type": "text/event-stream; charset=utf-8" },
  text: data.map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`).join(""),
});

describe("an answer that is as described has no problems", () => {
  const right: Record<string, Answer> = {
    "a completion, with fields nobody described": answer({ body: { ...completion, odd: [1] } }),
    "a stream with its end": answer(stream(chunk, { ...chunk, choices: [] }, "[DONE]")),
    "an error of Format A": answer({ status: 401, body: errorA("") }),
    "an error of Format B": answer({
      path: "/v1/messages",
      status: 529,
      body: errorB("overloaded_error"),
      headers: { "retry-after": "5" },
    }),
    "a rate limit": answer({ status: 429, body: errorA("rate_limit_exceeded"), headers: { "retry-after": "60" } }),
    "an unknown path": answer({ path: "/v1/nothing", status: 404, body: errorA("") }),
    "a wrong method": answer({ method: "GET", status: 404, body: errorA("") }),
    "the website's page": answer({
      path: "/models",
      status: 404,
      headers: { "content-type": "text/html" },
      text: "<p>",
    }),
    "bytes of sound": answer({ path: "/v1/audio/speech", headers: { "content-type": "audio/mpeg" }, text: "\u0000" }),
    "a model of a longer name": answer({ method: "GET", path: "/v1/models/a/b", body: errorA("model_not_found") }),
  };
  for (const [what, given] of Object.entries(right)) test(what, () => assert.deepEqual(answerProblems(given), []));
});

test("an accepted request is compared with the document, too", () => {
  const problems = (body: object) => requestProblems("POST", "/v1/chat/completions", JSON.stringify(body));
  assert.deepEqual(problems({ model: "m", messages: [{ role: "user", content: "x" }], odd: 1 }), []);
  assert.match(problems({ model: "m" }).join(), /request must have required property 'messages'/);
  assert.match(problems({ model: "m", messages: [], stream: "yes" }).join(), /request\/stream must be boolean,null/);
  assert.deepEqual(requestProblems("POST", "/v1/nothing", "{"), []);
});

describe("an answer that is not as described is told with what is wrong", () => {
  const wrong: Record<string, [Answer, RegExp]> = {
    "a status that is not described": [answer({ status: 418, body: errorA("") }), /status 418/],
    "a field that is missing": [
      answer({ body: { ...completion, choices: undefined } }),
      /body must have required.*choices/,
    ],
    "a field of another type": [answer({ body: { ...completion, created: "1" } }), /body\/created must be integer/],
    "a body that is not JSON": [answer({ status: 500, text: "oops" }), /body is not JSON/],
    "an event that is not JSON": [answer(stream(chunk, "oops")), /event 2 is not JSON/],
    "a chunk that is none": [answer(stream(chunk, completion)), /event 2/],
    "the shape of the other format": [
      answer({ status: 401, body: errorB("authentication_error") }),
      /body must NOT have additional/,
    ],
    "a type of another status": [
      answer({ path: "/v1/messages", status: 401, body: errorB("api_error") }),
      /body\/error\/type must be equal to one of/,
    ],
    "a code of another status": [answer({ status: 401, body: errorA("invalid_request") }), /body\/error\/code/],
    "an error that is not JSON": [
      answer({ status: 500, headers: { "content-type": "text/plain" }, text: "" }),
      /content type text\/plain/,
    ],
    "a body where none is described": [
      answer({ method: "GET", path: "/v1/videos/video_1/content", status: 416, body: {} }),
      /a body is not described/,
    ],
    "a rate limit without Retry-After": [
      answer({ status: 429, body: errorA("rate_limit_exceeded") }),
      /header Retry-After is missing/,
    ],
    "a wait that is no number": [
      answer({ status: 429, body: errorA("rate_limit_exceeded"), headers: { "retry-after": "soon" } }),
      /header Retry-After must match/,
    ],
    "another request id": [
      answer({ body: completion, headers: { "request-id": "x" } }),
      /header request-id must match/,
    ],
    "a page below /v1": [
      answer({ status: 404, headers: { "content-type": "text/html" }, text: "<p>" }),
      /a page with status 404/,
    ],
  };
  for (const [what, [given, told]] of Object.entries(wrong)) {
    test(what, () => assert.match(answerProblems(given).join("\n"), told));
  }
});
