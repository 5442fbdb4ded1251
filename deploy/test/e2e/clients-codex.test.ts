import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
import { ask, type Json } from "./ask.ts";
import { conversionCatalog, modelOf, plainChatModel } from "./conversion.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;

const models = { chat: plainChatModel, messages: modelOf("messages"), gemini: modelOf("gemini") };

const grammar = { type: "grammar", syntax: "lark", definition: "start: /(.|\\n)+/" };
const schemaOf = (name: string) => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name],
  additionalProperties: false,
});

/** The kinds of tools that Codex 0.169 sends by itself. */
const tools = [
  { type: "function", name: "exec_command", description: "Runs.", strict: false, parameters: schemaOf("cmd") },
  { type: "custom", name: "apply_patch", description: "Edits files.", format: grammar },
  {
    type: "namespace",
    name: "multi_agent_v1",
    description: "Tools for spawning and managing sub-agents.",
    tools: ["close_agent", "spawn_agent"].map((name) => ({
      type: "function",
      name,
      description: "Of agents.",
      strict: false,
      parameters: schemaOf("message"),
    })),
  },
  { type: "web_search", external_web_access: true },
];

/** The fields of a turn as Codex sends them; its history stands whole in `input`. */
const turnOf = (model: string, input: unknown[], fields: Json = {}): Json => ({
  model,
  instructions: "You are a coding agent.",
  input,
  tools,
  tool_choice: "auto",
  parallel_tool_calls: true,
  reasoning: { summary: "auto" },
  store: false,
  stream: true,
  include: ["reasoning.encrypted_content"],
  prompt_cache_key: "01a206c9",
  client_metadata: { session_id: "01a206c9" },
  ...fields,
});

const patch = '*** Begin Patch\n*** Add File: a.txt\n+"é"\n*** End Patch';
const question = { type: "message", role: "user", content: [{ type: "input_text", text: "Do it." }] };

/** The names by which the upstreams know a tool of free text. */
const patchNames = {
  chat: "relay_text__apply_patch",
  messages: "relay_text__apply_patch",
  gemini: "_relaytext.apply_patch",
};

async function send(secret: string, body: Json) {
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
  const reply = await ask(`${relayUrl}/v1/responses`, { headers, body: JSON.stringify(body) });
  assert.equal(reply.status, 200, reply.text);
  const isStream = body["stream"] === true;
  const events = isStream
    ? [...reply.text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data) as ResponseStreamEvent)
    : [];
  let whole: Response | undefined;
  for (const event of events) whole = accumulateResponse(event, whole);
  const response = isStream ? whole : (reply.json() as unknown as Response);
  assert.ok(response);
  const received = fake.received.find(({ headers: sent }) => sent["x-request-id"] === reply.rid);
  return { output: response.output as unknown as Json[], reply, received: JSON.stringify(received?.body) };
}

for (const provider of ["chat", "messages", "gemini"] as const) {
  for (const isStream of [true, false]) {
    const row = "API spec, Conversion between formats: The same conversion applies when";
    const rule = provider === "messages" ? `${row} a Format-A-only tool calls a model of the Format B provider: ` : "";
    test(`${rule}a loop of tools as Codex drives it, over ${provider}, ${isStream ? "streamed" : "whole"}`, async () => {
      const { secret, accountId } = await world.createCustomer();
      fake.scriptNext(
        {
          tools: [
            { name: "exec_command", arguments: { cmd: "ls" } },
            { name: "multi_agent_v1__spawn_agent", arguments: { message: "count" } },
            { name: patchNames[provider], arguments: { input: patch } },
          ],
        },
        { text: "All done." },
      );
      const model = models[provider];
      const first = await send(secret, turnOf(model, [question], { stream: isStream }));
      const dropped = first.reply.headers.get("x-relay-dropped") ?? "";
      assert.ok(dropped.split(", ").includes("tools.web_search"), dropped);
      assert.doesNotMatch(first.received, /namespace|web_search/);
      const calls = first.output.filter(({ type }) => type === "function_call" || type === "custom_tool_call");
      const shown = calls.map(({ type, namespace, name, arguments: given, input }) => [
        type,
        namespace,
        name,
        given ?? input,
      ]);
      assert.deepEqual(shown, [
        ["function_call", undefined, "exec_command", '{"cmd":"ls"}'],
        ["function_call", "multi_agent_v1", "spawn_agent", '{"message":"count"}'],
        ["custom_tool_call", undefined, "apply_patch", patch],
      ]);
      const results = calls.map(({ type, call_id }, at) => ({
        type: `${String(type)}_output`,
        call_id,
        output: `r${at}`,
      }));
      const second = await send(secret, turnOf(model, [question, ...first.output, ...results], { stream: isStream }));
      const [said] = second.output.filter(({ type }) => type === "message");
      assert.match(JSON.stringify(said), /All done\./);
      for (const words of ["multi_agent_v1__spawn_agent", "count", "r0", "r1", "r2", patchNames[provider]]) {
        assert.ok(second.received.includes(words), words);
      }
      await world.untilSettled(accountId, 2);
    });
  }
}

describe("a tool that only its provider runs", () => {
  for (const provider of ["chat", "messages", "gemini"] as const) {
    test(`is refused over ${provider} where a tool must be called, or the caller is strict`, async () => {
      const { secret } = await world.createCustomer();
      for (const [fields, strict] of [
        [{ tool_choice: "required" }, {}],
        [{}, { "x-relay-strict": "true" }],
      ]) {
        const body = turnOf(models[provider], [question], { ...fields, stream: false });
        const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json", ...strict };
        const reply = await ask(`${relayUrl}/v1/responses`, { headers, body: JSON.stringify(body) });
        assert.equal(reply.status, 400, reply.text);
      }
    });
  }
});
