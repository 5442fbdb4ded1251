import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "../catalog/choose.ts";
import { findStateIds } from "../dialects/state-ids.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { CallFailure } from "../failures.ts";
import { envelopeOf, modelOf, upstreamOf } from "../testing/fakes.ts";
import { sealId } from "./sealed-id.ts";
import { bindingOf, bindState, unsharedIds } from "./bind-state.ts";

const routeOf = (name: string, dialects = ["openai-responses"]): Route => ({
  upstream: upstreamOf({ name, dialects, credential: `secret-of-${name}` }),
  model: "m",
  priority: 0,
  weight: 0,
});
const [one, two] = [routeOf("one"), routeOf("two")];
const converted = routeOf("converted", ["gemini-generate"]);
const isPassed = ({ upstream }: Route): boolean => upstream.dialects.includes("openai-responses");
const sealed = (id: string, { upstream }: Route, account = "acct_1"): string =>
  sealId(id, bindingOf(upstream, account));

const idsOf = (body: object) => findStateIds(readJsonBody(Buffer.from(JSON.stringify(body))), { hasItems: true }) ?? [];
const bind = (body: object, routes: Route[] = [one, two]) => bindState(idsOf(body), "acct_1", routes, isPassed);
const message = (id: string) => ({ type: "message", id, role: "assistant", content: [] });

function refuses(body: object, path: string, routes?: Route[]): void {
  assert.throws(
    () => bind(body, routes),
    (error) =>
      error instanceof CallFailure &&
      error.failure.name === "field_invalid" &&
      error.failure.detail?.includes(`field ${path} `) === true,
  );
}

test("an id goes back to the upstream that gave it, and only there", () => {
  const bound = bind({ previous_response_id: sealed("resp_1", two) }, [one, two, converted]);
  assert.deepEqual(bound.routes, [two]);
  assert.deepEqual(
    bound.editsFor(two).map(({ text }) => text),
    ["resp_1"],
  );
});

test("ids of nobody, of another account and of other upstreams are refused by the field's name", () => {
  refuses({ previous_response_id: "resp_1" }, "previous_response_id");
  refuses({ previous_response_id: sealed("resp_1", one, "acct_2") }, "previous_response_id");
  refuses({ previous_response_id: sealed("resp_1", two) }, "previous_response_id", [one]);
  refuses({ previous_response_id: sealed("resp_1", routeOf("one")).replace("resp_", "conv_") }, "previous_response_id");
  refuses({ input: [{ type: "item_reference", id: "rs_1" }] }, "input[0].id");
  refuses(
    { input: [message(sealed("msg_1", one)), { type: "item_reference", id: sealed("rs_1", one, "b") }] },
    "input[1].id",
  );
  refuses({ tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }, "tools[0].vector_store_ids[0]");
  // Two upstreams would have to serve it.
  refuses(
    { previous_response_id: sealed("resp_1", one), input: [{ type: "item_reference", id: sealed("rs_1", two) }] },
    "input[0].id",
  );
});

test("items that come along lose ids that are not known, and are sent first to whom they came from", () => {
  const body = {
    input: [message("msg_0"), message(sealed("msg_1", one)), message(sealed("msg_2", two)), message("msg_3")],
  };
  const bound = bind(body, [converted, one, two]);
  assert.deepEqual(bound.routes, [two, converted, one]);
  assert.deepEqual(
    bound.editsFor(two).map(({ text }) => text),
    [undefined, undefined, "msg_2", undefined],
  );
  assert.deepEqual(
    bound.editsFor(one).map(({ text }) => text),
    [undefined, "msg_1", undefined, undefined],
  );
});

test("kinds that the operator shares pass as they come", () => {
  const model = modelOf({ sharedState: new Set(["prompt"]) });
  const body = { prompt: { id: "pmpt_1" }, conversation: "conv_1" };
  const envelope = { ...envelopeOf(body, "openai-responses"), stateIds: idsOf(body) };
  assert.deepEqual(
    unsharedIds(envelope, model).map(({ path }) => path),
    ["conversation"],
  );
  assert.equal(unsharedIds(envelope, modelOf()).length, 2);
});

test("where every route needs a conversion, that is what reads and refuses ids", () => {
  const picture = { type: "input_image", image_url: "gs://bucket/a.png" };
  refuses({ input: [{ role: "user", content: [picture] }] }, "input[0].content[0].image_url", [converted]);
  const bound = bind({ previous_response_id: "resp_1" }, [converted]);
  assert.deepEqual([bound.routes, bound.editsFor(converted)], [[converted], []]);
});
