import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseRoutes, findModel } from "./choose.ts";
import { CallFailure } from "./failures.ts";
import { modelOf, upstreamOf } from "./testing/fakes.ts";

const isUnavailable =
  (detail: string) =>
  (error: unknown): boolean =>
    error instanceof CallFailure && error.failure.name === "model_unavailable" && error.failure.detail === detail;

test("API spec, Cases, Wrong or unoffered model ID: the name that the caller wrote is told back", () => {
  const model = modelOf();
  const catalog = { models: new Map([["m", model]]) };
  assert.equal(findModel(catalog, "m"), model);
  for (const name of ["M", "m ", "constructor", "__proto__"])
    assert.throws(() => findModel(catalog, name), isUnavailable(name));
});

test("a call goes to the upstreams that speak its dialect, in the order of the catalog", () => {
  const routeOf = (name: string, dialects: ("openai-chat" | "anthropic-messages")[]) => ({
    upstream: upstreamOf({ name, dialects }),
    model: name,
  });
  const model = modelOf({
    routes: [
      routeOf("first", ["anthropic-messages"]),
      routeOf("second", ["openai-chat", "anthropic-messages"]),
      routeOf("third", ["openai-chat"]),
    ],
  });
  const namesFor = (dialect: "openai-chat" | "anthropic-messages") =>
    chooseRoutes(model, dialect).map((route) => route.model);
  assert.deepEqual(namesFor("openai-chat"), ["second", "third"]);
  assert.deepEqual(namesFor("anthropic-messages"), ["first", "second"]);
});

test("a model that no upstream runs in the caller's dialect is not available to that caller", () => {
  const model = modelOf({ routes: [{ upstream: upstreamOf({ dialects: ["anthropic-messages"] }), model: "x" }] });
  assert.throws(() => chooseRoutes(model, "openai-chat"), isUnavailable("m"));
});
