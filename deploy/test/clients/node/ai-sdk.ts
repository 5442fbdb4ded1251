import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, Output, streamText, tool, type LanguageModel } from "ai";
import { expectWords, runChecks, setting, structured, twoTools, words } from "./checks.ts";

const { baseUrl, apiKey, model } = setting;
const openai = createOpenAI({ baseURL: `${baseUrl}/v1`, apiKey });
const anthropic = createAnthropic({ baseURL: `${baseUrl}/v1`, apiKey });
const models = { chat: openai.chat(model), responses: openai.responses(model), messages: anthropic(model) };

const inputSchema = jsonSchema<{ where: string }>({
  type: "object",
  properties: { where: { type: "string" } },
  required: ["where"],
  additionalProperties: false,
});
const tools = {
  get_weather: tool({ description: "Tells.", inputSchema, execute: async () => words.get_weather }),
  get_time: tool({ description: "Tells.", inputSchema, execute: async () => words.get_time }),
};
const person = jsonSchema<{ name: string; age: number }>({
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
});

const checksOf = (name: string, asked: LanguageModel) => ({
  [`${name}_two_tools`]: async () => {
    const { text } = await generateText({ model: asked, prompt: twoTools, tools, stopWhen: isStepCount(4) });
    expectWords(text);
  },
  [`${name}_two_tools_streamed`]: async () => {
    const stream = streamText({ model: asked, prompt: twoTools, tools, stopWhen: isStepCount(4) });
    expectWords(await stream.text);
  },
  [`${name}_structured`]: async () => {
    const { output } = await generateText({
      model: asked,
      prompt: structured,
      output: Output.object({ schema: person }),
    });
    assert.deepEqual(output, { name: "Ada", age: 36 });
  },
});

await runChecks(
  Object.assign({}, ...Object.entries(models).map(([name, asked]) => checksOf(name, asked))) as Parameters<
    typeof runChecks
  >[0],
);
