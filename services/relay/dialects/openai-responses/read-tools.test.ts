import assert from "node:assert/strict";
import { test } from "node:test";
import { UnsupportedError } from "../conversation.ts";
import { readRequest } from "./read-request.ts";

type Body = Record<string, unknown>;
const droppedOf = (fields: Body): string[] => [...readRequest({ model: "m", input: "Hi", ...fields }).dropped];
const refuses = (fields: Body, message: RegExp): void =>
  assert.throws(
    () => readRequest({ model: "m", input: "Hi", ...fields }),
    (error: unknown) => error instanceof UnsupportedError && message.test(error.message),
  );

const spawn = { type: "function", name: "spawn_agent", description: "Starts one.", parameters: { type: "object" } };
const group = {
  type: "namespace",
  name: "multi_agent_v1",
  description: "Sub-agents.",
  tools: [spawn, { type: "custom", name: "note" }],
};
const spawnName = "multi_agent_v1__spawn_agent";

test("tools of a namespace are read by flat names, the first with what the namespace is for", () => {
  const { tools } = readRequest({
    model: "m",
    input: "Hi",
    tools: [{ type: "function", name: "a" }, group],
  }).conversation;
  assert.deepEqual(tools, [
    { name: "a" },
    {
      name: spawnName,
      description: "About the tools of multi_agent_v1: Sub-agents.\n\nStarts one.",
      schema: { type: "object" },
    },
    { name: "multi_agent_v1__note", isFreeText: true },
  ]);
});

test("a call of a tool in a namespace comes back as history by the flat name, declared or not", () => {
  const call = {
    type: "function_call",
    call_id: "c1",
    namespace: "multi_agent_v1",
    name: "spawn_agent",
    arguments: "{}",
  };
  const result = { type: "function_call_output", call_id: "c1", output: "ok", namespace: "multi_agent_v1" };
  for (const tools of [[group], []]) {
    const { conversation, dropped } = readRequest({ model: "m", input: [call, result], tools });
    assert.deepEqual(conversation.turns[0]?.parts, [{ kind: "call", id: "c1", name: spawnName, input: "{}" }]);
    assert.deepEqual([...dropped], []);
  }
});

test("a choice names a namespace, or a tool of one", () => {
  const chosen = (choice: unknown): unknown =>
    readRequest({ model: "m", input: "Hi", tools: [group], tool_choice: choice }).conversation.toolChoice;
  const named = { kind: "required", names: [spawnName] };
  assert.deepEqual(chosen({ type: "function", name: "spawn_agent" }), named);
  assert.deepEqual(chosen({ type: "function", name: "spawn_agent", namespace: "multi_agent_v1" }), named);
  const allowed = { type: "allowed_tools", mode: "auto", tools: [{ type: "namespace", name: "multi_agent_v1" }] };
  assert.deepEqual(chosen(allowed), { kind: "auto", names: [spawnName, "multi_agent_v1__note"] });
});

const providerTools = [
  "web_search",
  "web_search_preview_2025_03_11",
  "file_search",
  "code_interpreter",
  "image_generation",
  "mcp",
  "tool_search",
];

test("tools that the provider runs are left out and named; but not where a tool must be called", () => {
  const tools = [spawn, ...providerTools.map((type) => ({ type }))];
  const allowed = { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "spawn_agent" }] };
  for (const choice of ["auto", "none", undefined, { type: "function", name: "spawn_agent" }, allowed]) {
    const { conversation, dropped } = readRequest({ model: "m", input: "Hi", tools, tool_choice: choice });
    assert.deepEqual(
      conversation.tools.map(({ name }) => name),
      ["spawn_agent"],
    );
    assert.deepEqual(
      [...dropped],
      providerTools.map((type) => `tools.${type}`),
    );
  }
  refuses({ tools, tool_choice: "required" }, /tools\[1\].*web_search/);
  const nested = { ...group, tools: [...group.tools, { type: "web_search" }] };
  assert.deepEqual(droppedOf({ tools: [nested] }), ["tools.web_search"]);
});

test("tools that callers run, and those that nobody knows, are refused: they would wait for calls in vain", () => {
  for (const type of ["shell", "local_shell", "apply_patch", "computer_use_preview", "new_tool", 7]) {
    refuses({ tools: [{ type }] }, /^field tools\[0\] of type /);
  }
  refuses({ tools: [{ type: "namespace", name: "n" }] }, /tools\[0\]\.tools/);
  refuses({ tools: [{ type: "namespace", tools: [] }] }, /tools\[0\]\.name/);
  refuses({ tools: [{ type: "namespace", name: "n", tools: [{ type: "function" }] }] }, /tools\[0\]\.tools\[0\]\.name/);
});
