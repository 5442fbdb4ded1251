import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { createBodyBudget } from "../http/body-budget.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { createPreparation } from "./prepare.ts";
import { envelopeOf, modelOf, upstreamOf } from "../testing/fakes.ts";

const text = "x".repeat(100_000);

/** What preparing a request claims of a budget for bodies. */
function claimedBy(fields: object, spoken: "openai-chat" | "anthropic-messages", maxBytes = 1_000_000_000): number {
  const budget = createBodyBudget(maxBytes);
  const envelope = envelopeOf(fields);
  const share = () => budget.share(new Writable(), { address: "192.0.2.1", accountId: "acct_1" });
  const preparation = createPreparation({
    envelope,
    dialect: dialects["openai-chat"],
    model: modelOf(),
    inputTokens: 0,
    share,
  });
  const route = { upstream: upstreamOf({ dialects: [spoken] }), model: "m", priority: 0, weight: 0 };
  preparation.for(route);
  preparation.for({ ...route });
  return budget.bytes();
}

test("a large body that is read as objects claims its bytes once more, or what its values take", () => {
  const messages = [{ role: "user", content: text }];
  const bytes = envelopeOf({ messages }).body.bytes.length;
  assert.equal(claimedBy({ messages }, "openai-chat"), 0);
  assert.equal(claimedBy({ messages }, "anthropic-messages"), bytes);
  const many = [{ role: "user", content: "x", extra: Array.from({ length: 50_000 }, () => 1) }];
  const { values } = envelopeOf({ messages: many }).body;
  assert.equal(claimedBy({ messages: many }, "anthropic-messages"), values * 256);
  assert.equal(
    claimedBy({ messages: [{ role: "user", content: "x" }] }, "anthropic-messages"),
    0,
    "a small one is free",
  );
  const noted = [{ role: "assistant", content: text, extra_content: { relay: { state: "relay.1.x" } } }];
  assert.ok(claimedBy({ messages: noted }, "openai-chat") > text.length, "to take state out of it");
});

test("where the budget has no room for that the call is told that the service is busy", () => {
  const messages = [{ role: "user", content: text }];
  assert.throws(
    () => claimedBy({ messages }, "anthropic-messages", 50_000),
    (error) => error instanceof CallFailure && error.failure.name === "service_unavailable",
  );
});

test("a schema of an answer reaches the Anthropic format from Responses, and from chat where the catalog says so", () => {
  const schema = { type: "object", properties: {}, additionalProperties: false };
  const messages = [{ role: "user", content: "x" }];
  const asked = {
    "openai-chat": { messages, response_format: { type: "json_schema", json_schema: { name: "n", schema } } },
    "openai-responses": { input: "x", text: { format: { type: "json_schema", name: "n", schema } } },
  };
  const configOf = (name: keyof typeof asked, structuredOutput?: "provider" | "none"): unknown => {
    const preparation = createPreparation({
      envelope: envelopeOf(asked[name]),
      dialect: dialects[name],
      model: { ...modelOf(), ...(structuredOutput && { structuredOutput }) },
      inputTokens: 0,
      share: () => createBodyBudget(1_000_000).share(new Writable(), { address: "192.0.2.1", accountId: "acct_1" }),
    });
    const upstream = upstreamOf({ dialects: ["anthropic-messages"] });
    const { body } = preparation.for({ upstream, model: "m", priority: 0, weight: 0 });
    return (JSON.parse(body.toString()) as Record<string, unknown>)["output_config"];
  };
  const said = { format: { type: "json_schema", schema } };
  assert.equal(configOf("openai-chat"), undefined);
  assert.deepEqual(configOf("openai-chat", "provider"), said);
  assert.deepEqual(configOf("openai-responses"), said);
  assert.equal(configOf("openai-responses", "none"), undefined);
});

test("a service tier without a price is refused also where a conversion carries it, and left out where none does", () => {
  const prepare = (spoken: "openai-responses" | "anthropic-messages") => {
    const preparation = createPreparation({
      envelope: envelopeOf({ messages: [{ role: "user", content: "x" }], service_tier: "priority" }),
      dialect: dialects["openai-chat"],
      model: modelOf(),
      inputTokens: 0,
      share: () => createBodyBudget(1_000_000).share(new Writable(), { address: "192.0.2.1", accountId: "acct_1" }),
    });
    return preparation.for({ upstream: upstreamOf({ dialects: [spoken] }), model: "m", priority: 0, weight: 0 });
  };
  assert.throws(
    () => prepare("openai-responses"),
    (error) => error instanceof CallFailure && error.failure.name === "field_invalid",
  );
  assert.deepEqual(prepare("anthropic-messages").dropped, ["service_tier"]);
});
