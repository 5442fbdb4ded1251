import assert from "node:assert/strict";
import { test } from "node:test";
import { modelOf } from "../testing/fakes.ts";
import { listFormatA, listFormatB, wantsFormatB } from "./models.ts";

const models = [modelOf({ id: "a", createdAtSeconds: 1_700_000_000 }), modelOf({ id: "b" })];

test("API spec, Endpoints: `GET /v1/models` gives the Format B list when both x-api-key and provider-version are present, otherwise Format A", () => {
  assert.equal(wantsFormatB({ "x-api-key": "k", "provider-version": "2026-10-21" }), true);
  assert.equal(wantsFormatB({ "x-api-key": "k", "anthropic-version": "2023-06-01" }), true);
  assert.equal(wantsFormatB({ "x-api-key": "k" }), false);
  assert.equal(wantsFormatB({ "provider-version": "2026-10-21" }), false);
  assert.equal(wantsFormatB({ authorization: "Bearer k", "provider-version": "2026-10-21" }), false);
  assert.equal(wantsFormatB({}), false);
});

test("Format A: an object of type list with id, object, created and owned_by", () => {
  assert.deepEqual(listFormatA(models), {
    object: "list",
    data: [
      { id: "a", object: "model", created: 1_700_000_000, owned_by: "somebody" },
      { id: "b", object: "model", created: 0, owned_by: "somebody" },
    ],
  });
  assert.deepEqual(listFormatA([]), { object: "list", data: [] });
});

test("Format B: one page with RFC 3339 times, first and last id", () => {
  const [first] = (listFormatB(models) as { data: object[] }).data;
  assert.deepEqual(first, {
    type: "model",
    id: "a",
    display_name: "a",
    created_at: "2023-11-14T22:13:20Z",
    max_input_tokens: 100_000,
    max_tokens: 10_000,
  });
  const { data: _, ...page } = listFormatB(models) as Record<string, unknown>;
  assert.deepEqual(page, { has_more: false, first_id: "a", last_id: "b" });
  assert.deepEqual(listFormatB([]), { data: [], has_more: false, first_id: null, last_id: null });
});
