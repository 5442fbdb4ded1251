import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ask, chat, type Json, messages, type Side } from "./ask.ts";
import { modelOn } from "./catalog.ts";
import { sideOf } from "./endpoints.ts";
import { checkRefusal, checkUntouched } from "./refusal.ts";
import { sharedWorldWith } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const price = { version: "e2e-1", input_tokens: "1", output_tokens: "2" };
const models = {
  "searching-model": modelOn("fake", { price: { ...price, tool_calls: "10000" } }),
  "generous-model": modelOn("fake", { price, unpriced_tools: "pass" }),
};

const world = await sharedWorldWith(() => ({ models }));
const { relayUrl } = world;

const responses = sideOf("/v1/responses");
const question: Json = { messages: [{ role: "user", content: "Say something." }], input: "Say something." };

function send(side: Side, { secret }: Customer, model: string, more: Json) {
  const { messages: asked, input } = question;
  const body = { model, ...side.fields, ...(side === responses ? { input } : { messages: asked }), ...more };
  return ask(`${relayUrl}${side.path}`, { headers: side.headers(secret), body: JSON.stringify(body) });
}

const functionTool = { type: "function", name: "look", function: { name: "look" } };
const refused: [string, Side, Json, RegExp][] = [
  ["chat, a tier", chat, { service_tier: "priority" }, /service_tier "priority"/],
  ["responses, a tier", responses, { service_tier: "flex" }, /service_tier "flex"/],
  ["chat, a search", chat, { web_search_options: {} }, /web_search_options/],
  ["responses, a search", responses, { tools: [functionTool, { type: "web_search" }] }, /web_search/],
  ["responses, pictures", responses, { tools: [{ type: "image_generation" }] }, /image_generation/],
  ["messages, a search", messages, { tools: [{ type: "web_search_20250305", name: "web_search" }] }, /web_search/],
  ["messages, code", messages, { tools: [{ type: "code_execution_20260521", name: "code" }] }, /code_execution/],
];

describe("what its provider bills and no price speaks of is refused by name, also where nothing is converted", () => {
  for (const [what, side, more, field] of refused) {
    test(what, async () => {
      const by = await world.createCustomer();
      await checkUntouched(world, by, async () => {
        const reply = await send(side, by, "test-model", more);
        const { message } = (reply.json() as { error: { message: string } }).error;
        assert.match(message, field);
        checkRefusal(side, reply, { status: 400, message, code: "invalid_request" });
      });
    });
  }
});

test("a tool that is priced passes, and so does any where the operator pays for it", async () => {
  const by = await world.createCustomer();
  const passing: [Side, string, Json][] = [
    [chat, "test-model", { service_tier: "auto" }],
    [responses, "test-model", { service_tier: "default", tools: [{ type: "mcp", server_label: "x" }] }],
    [responses, "searching-model", { tools: [{ type: "web_search", external_web_access: true }] }],
    [messages, "searching-model", { tools: [{ type: "web_search_20260318", name: "web_search" }] }],
    [responses, "generous-model", { tools: [{ type: "image_generation" }] }],
    [chat, "generous-model", { web_search_options: {} }],
  ];
  for (const [side, model, more] of passing) {
    const reply = await send(side, by, model, more);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.headers.get("x-relay-dropped"), null);
  }
  await world.untilSettled(by.accountId, passing.length);
});
