import assert from "node:assert/strict";
import { test } from "node:test";
import { efforts, type Conversation, type Part, type Quirk, type Reasoning } from "../conversation.ts";
import { writeRequest } from "./write-request.ts";

const said: Conversation["turns"] = [{ role: "user", parts: [{ kind: "text", text: "Hi" }] }];
const plain: Conversation = { turns: said, tools: [], stopSequences: [], isStream: false, wantsStreamUsage: false };

function think(reasoning: Reasoning, quirks: Quirk[] = [], fields: Partial<Conversation> = {}): unknown[] {
  const target = { model: "claude", maxOutputTokens: 64_000, quirks: new Set(quirks) };
  const { body, losses } = writeRequest({ ...plain, ...fields, reasoning }, target);
  return [body["thinking"], body["output_config"], [...losses].toSorted().join()];
}

const budgetOf = (reasoning: Reasoning, maxOutputTokens: number): unknown => {
  const [thinking] = think(reasoning, [], { maxOutputTokens }) as [{ budget_tokens: number } | undefined];
  return thinking?.budget_tokens;
};

test("API spec, Conversion between formats: reasoning_effort is replaced by the provider's thinking setting", () => {
  const budgets = efforts.map((effort) => budgetOf({ effort }, 20_000));
  assert.deepEqual(budgets, [undefined, 1024, 2000, 6000, 12_000, 18_000, 19_000]);
  assert.deepEqual(think({ effort: "none" }), [{ type: "disabled" }, undefined, ""]);
  assert.deepEqual(think({}), [undefined, undefined, ""]);
  assert.deepEqual(think({ isShown: false }), [undefined, undefined, ""]);
});

test("adaptive models take the effort by name, and show thoughts when they are asked to", () => {
  const named = efforts.map((effort) => {
    const [thinking, config] = think({ effort }, ["adaptive-thinking"]) as [{ type: string }, { effort: string }?];
    return `${thinking.type} ${config?.effort}`;
  });
  assert.deepEqual(named, [
    "disabled undefined",
    "adaptive low",
    "adaptive low",
    "adaptive medium",
    "adaptive high",
    "adaptive xhigh",
    "adaptive max",
  ]);
  const shown = think({ effort: "low", isShown: true }, ["adaptive-thinking"]);
  assert.deepEqual(shown, [{ type: "adaptive", display: "summarized" }, { effort: "low" }, ""]);
  const hidden = think({ budgetTokens: 10_000, isShown: false }, ["adaptive-thinking"]);
  assert.deepEqual(hidden, [{ type: "adaptive", display: "omitted" }, { effort: "medium" }, ""]);
});

test("models that do not think say so", () => {
  assert.deepEqual(think({ effort: "high" }, ["no-thinking"]), [undefined, undefined, "reasoning"]);
  assert.deepEqual(think({ effort: "none" }, ["no-thinking"]), [undefined, undefined, ""]);
});

test("trap 28 (effort to budget): at least 1024, below max_tokens, which is not raised", () => {
  assert.equal(budgetOf({ effort: "minimal" }, 1500), 1024);
  assert.equal(budgetOf({ effort: "max" }, 1025), 1024);
  assert.equal(budgetOf({ budgetTokens: 50_000 }, 4000), 3999);
  assert.equal(budgetOf({ budgetTokens: 10 }, 4000), 1024);
  assert.deepEqual(think({ effort: "high" }, [], { maxOutputTokens: 1024 }), [undefined, undefined, "reasoning"]);
  for (const effort of efforts.slice(1)) {
    for (let maxOutputTokens = 1025; maxOutputTokens < 200_000; maxOutputTokens += 997) {
      const budget = Number(budgetOf({ effort }, maxOutputTokens));
      assert.ok(budget >= 1024 && budget < maxOutputTokens, `${effort} of ${maxOutputTokens}: ${budget}`);
    }
  }
});

test("trap 28: with thinking on no sampling and no forced tool choice, each named", () => {
  const fields: Partial<Conversation> = {
    temperature: 0.5,
    topP: 0.5,
    topK: 5,
    tools: [{ name: "f" }],
    toolChoice: { kind: "required" },
    allowsParallelCalls: false,
  };
  const target = { model: "claude", maxOutputTokens: 64_000, quirks: new Set<Quirk>() };
  const { body, losses } = writeRequest({ ...plain, ...fields, reasoning: { effort: "low" } }, target);
  assert.deepEqual([body["temperature"], body["top_p"], body["top_k"]], [undefined, undefined, undefined]);
  assert.deepEqual(body["tool_choice"], { type: "auto", disable_parallel_tool_use: true });
  assert.deepEqual([...losses].toSorted(), ["temperature", "toolChoice", "topK", "topP"]);
  const off = writeRequest({ ...plain, ...fields, reasoning: { effort: "none" } }, target);
  assert.deepEqual(off.body["tool_choice"], { type: "any", disable_parallel_tool_use: true });
});

test("trap 15 (an assistant turn holding tool_use must start with its thinking): without it no budget is given", () => {
  const thinking: Part = { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "c2ln" } };
  const call: Part = { kind: "call", id: "a", name: "f", input: "{}" };
  const result: Part = { kind: "result", callId: "a", parts: [], isError: false };
  const after = (parts: Part[], ...more: Conversation["turns"]): Partial<Conversation> => ({
    turns: [...said, { role: "assistant", parts }, { role: "user", parts: [result] }, ...more],
    tools: [{ name: "f" }],
  });
  const [on] = think({ effort: "low" }, [], after([thinking, call])) as [{ type: string }];
  assert.equal(on.type, "enabled");
  assert.deepEqual(think({ effort: "low" }, [], after([call])), [undefined, undefined, "reasoning"]);
  const [adaptive] = think({ effort: "low" }, ["adaptive-thinking"], after([call])) as [{ type: string }];
  assert.equal(adaptive.type, "adaptive");
  const answered: Conversation["turns"] = [{ role: "assistant", parts: [{ kind: "text", text: "So" }] }, ...said];
  const [again] = think({ effort: "low" }, [], after([call], ...answered)) as [{ type: string }];
  assert.equal(again.type, "enabled", "an earlier turn does not matter");
  const step: Conversation["turns"] = [
    { role: "assistant", parts: [{ ...call, id: "b" }] },
    { role: "user", parts: [{ ...result, callId: "b" }] },
  ];
  const [later] = think({ effort: "low" }, [], after([thinking, call], ...step)) as [{ type: string }];
  assert.equal(later.type, "enabled", "only the first step of a turn must think");
});
