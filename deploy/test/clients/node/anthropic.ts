import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { expectWords, fake, runChecks, setting, structured, twoTools, words } from "./checks.ts";

const { baseUrl, apiKey, model } = setting;
const client = new Anthropic({ baseURL: baseUrl, apiKey, maxRetries: 0 });
const ask = (content: string) => ({ model, max_tokens: 1_000, messages: [{ role: "user" as const, content }] });
const input_schema = { type: "object" as const, properties: { where: { type: "string" } }, required: ["where"] };
const schema = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

await runChecks({
  runs_two_tools: async () => {
    const tools = (["get_weather", "get_time"] as const).map((name) => ({
      name,
      description: "Tells.",
      input_schema,
      run: () => words[name],
      parse: (input: unknown) => input,
    }));
    const answer = await client.beta.messages.toolRunner({ ...ask(twoTools), tools }).runUntilDone();
    expectWords(answer.content.map((block) => (block.type === "text" ? block.text : "")).join(""));
  },
  stream_parses: async () => {
    const output_config = { format: { type: "json_schema" as const, schema } };
    const stream = client.messages.stream({ ...ask(structured), output_config });
    assert.deepEqual(JSON.parse(await stream.finalText()), { name: "Ada", age: 36 });
  },
  errors_by_type: async () => {
    for (const [status, kind] of [
      [400, Anthropic.BadRequestError],
      [429, Anthropic.RateLimitError],
      [500, Anthropic.InternalServerError],
    ] as const) {
      const asked = client.messages.create(ask(fake({ status })));
      await assert.rejects(asked, (error) => error instanceof kind && error.requestID !== undefined);
    }
  },
});
