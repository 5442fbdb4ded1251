import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { chooseRoutes, findModel } from "./choose.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { CallFailure } from "../failures.ts";
import { modelOf, upstreamOf } from "../testing/fakes.ts";

const isUnavailable =
  (detail: string) =>
  (error: unknown): boolean =>
    error instanceof CallFailure && error.failure.name === "model_unavailable" && error.failure.detail === detail;

test("API spec, Cases: Wrong or unoffered model ID. The name that the caller wrote is told back", () => {
  const model = modelOf();
  const catalog = { models: new Map([["m", model]]), upstreams: [], isMaintenance: false };
  assert.equal(findModel(catalog, "m"), model);
  for (const name of ["M", "m ", "constructor", "__proto__"])
    assert.throws(() => findModel(catalog, name), isUnavailable(name));
});

test("a call goes to the upstreams that speak its dialect, then to those it is converted for, in the order of the catalog", () => {
  const routeOf = (name: string, dialects: ("openai-chat" | "anthropic-messages")[]) => ({
    upstream: upstreamOf({ name, dialects }),
    model: name,
    priority: 0,
    weight: 0,
  });
  const model = modelOf({
    routes: [
      routeOf("first", ["anthropic-messages"]),
      routeOf("second", ["openai-chat", "anthropic-messages"]),
      routeOf("third", ["openai-chat"]),
    ],
  });
  const namesFor = (dialect: DialectName) => chooseRoutes(model, dialect).map((route) => route.model);
  assert.deepEqual(namesFor("openai-chat"), ["second", "third", "first"], "where nothing is converted comes first");
  assert.deepEqual(namesFor("anthropic-messages"), ["first", "second", "third"]);
  assert.deepEqual(namesFor("openai-responses"), ["first", "second", "third"]);
  const last = { ...routeOf("last", ["openai-chat"]), priority: 1 };
  const preferred = modelOf({ routes: [last, routeOf("first", ["anthropic-messages"])] });
  assert.equal(chooseRoutes(preferred, "openai-chat")[0]?.model, "first", "a lower priority wins over that");
});

test("a model that no upstream runs in the caller's dialect, nor in one that it converts to, has no route for that caller", () => {
  const upstream = upstreamOf({ dialects: ["anthropic-messages"] });
  const model = modelOf({ routes: [{ upstream, model: "x", priority: 0, weight: 0 }] });
  for (const dialect of ["openai-embeddings", "openai-compact", "openai-completions"] as const) {
    assert.deepEqual(chooseRoutes(model, dialect), []);
  }
  assert.deepEqual(chooseRoutes(modelOf({ dialects: new Set(["openai-chat"]) }), "anthropic-messages"), []);
});

/** A model on one route per entry of [priority, weight], named by its index. */
const modelOn = (...entries: [priority: number, weight: number][]) =>
  modelOf({
    routes: entries.map(([priority, weight], index) => ({
      upstream: upstreamOf(),
      model: String(index),
      priority,
      weight,
    })),
  });

const orderOf = (model: ReturnType<typeof modelOf>, random?: () => number): string =>
  chooseRoutes(model, "openai-chat", random)
    .map((route) => route.model)
    .join("");

test("a lower priority is tried first, and equals as they stand in the catalog", () => {
  assert.equal(orderOf(modelOn([2, 0], [0, 0], [1, 0], [0, 0], [2, 0])), "13204");
  assert.equal(orderOf(modelOn([0, 0], [0, 0], [0, 0])), "012");
});

test("routes with a weight come before those without, within their priority", () => {
  for (let count = 0; count < 100; count += 1) {
    assert.match(orderOf(modelOn([0, 0], [0, 5], [0, 1], [0, 0])), /^(12|21)03$/);
    assert.match(orderOf(modelOn([1, 9], [0, 0], [1, 9])), /^1(02|20)$/);
  }
});

const settings = fc.array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 1_000_000 })), {
  minLength: 1,
  maxLength: 20,
});

test("every route is in the order once, by priority, whatever the weights and the draws", () => {
  const draws = fc.func(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }));
  fc.assert(
    fc.property(settings, draws, (entries, draw) => {
      const model = modelOn(...entries);
      let drawn = 0;
      const order = chooseRoutes(model, "openai-chat", () => draw((drawn += 1)));
      assert.deepEqual(new Set(order), new Set(model.routes));
      assert.equal(order.length, model.routes.length);
      const priorities = order.map(({ priority }) => priority);
      assert.deepEqual(
        priorities,
        priorities.toSorted((one, other) => one - other),
      );
    }),
  );
});

/** Evenly spread numbers from 0 to below 1, the same in every run. */
function createDraws(): () => number {
  let state = 1;
  return () => {
    // Park and Miller's minimal standard generator.
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

test("calls are shared among equals in proportion to their weights, for the first place and for the next", () => {
  const model = modelOn([0, 1], [0, 3], [0, 6]);
  const random = createDraws();
  const runs = 20_000;
  const firsts = [0, 0, 0];
  const secondsBehindTwo = [0, 0, 0];
  for (let count = 0; count < runs; count += 1) {
    const [first = 0, second = 0] = [...orderOf(model, random)].map(Number);
    firsts[first] = (firsts[first] ?? 0) + 1;
    if (first === 2) secondsBehindTwo[second] = (secondsBehindTwo[second] ?? 0) + 1;
  }
  const isNear = (found: number, wanted: number) =>
    assert.ok(Math.abs(found - wanted) < 0.02, `${found} near ${wanted}`);
  [0.1, 0.3, 0.6].forEach((share, index) => isNear((firsts[index] ?? 0) / runs, share));
  const behindTwo = firsts[2] ?? 0;
  [0.25, 0.75].forEach((share, index) => isNear((secondsBehindTwo[index] ?? 0) / behindTwo, share));
});
