import assert from "node:assert/strict";
import OpenAI from "openai";
import { ResponsesWebSocketSession } from "openai/lib/responses/responses-websocket-session";
import { ResponsesWS } from "openai/resources/responses/ws";
import { expectWords, fake, runChecks, setting, structured, twoTools, words } from "./checks.ts";

const { baseUrl, apiKey, model } = setting;
const client = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey, maxRetries: 0 });
const parameters = { type: "object", properties: { where: { type: "string" } }, required: ["where"] };
const schema = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};
const person = { name: "Ada", age: 36 };
const user = (content: string) => ({ role: "user" as const, content });
const failWith = (status: number) => user(fake({ status }));

await runChecks({
  chat_runs_two_tools: async () => {
    const tools = (["get_weather", "get_time"] as const).map((name) => ({
      type: "function" as const,
      function: { name, description: "Tells.", parameters, function: () => words[name] },
    }));
    const runner = client.chat.completions.runTools({ model, messages: [user(twoTools)], tools, stream: true });
    expectWords((await runner.finalContent()) ?? "");
  },
  chat_parses: async () => {
    const json_schema = { name: "person", schema, strict: true };
    const messages = [user(structured)];
    const format = { type: "json_schema" as const, json_schema };
    const answer = await client.chat.completions.parse({ model, messages, response_format: format });
    assert.deepEqual(JSON.parse(answer.choices[0]?.message.content ?? ""), person);
  },
  responses_stream_parses: async () => {
    const format = { type: "json_schema" as const, name: "person", schema, strict: true };
    const stream = client.responses.stream({ model, input: structured, text: { format } });
    const answer = await stream.finalResponse();
    assert.deepEqual(JSON.parse(answer.output_text), person);
  },
  responses_two_tools: async () => {
    const tools = Object.keys(words).map((name) => ({ type: "function" as const, name, parameters, strict: false }));
    const input: OpenAI.Responses.ResponseInput = [user(twoTools)];
    for (let turn = 0; turn < 3; turn += 1) {
      const answer = await client.responses.stream({ model, input, tools }).finalResponse();
      const calls = answer.output.filter((item) => item.type === "function_call");
      if (calls.length === 0) return expectWords(answer.output_text);
      input.push(...(answer.output as OpenAI.Responses.ResponseInputItem[]));
      for (const { call_id, name } of calls) {
        input.push({ type: "function_call_output", call_id, output: words[name as keyof typeof words] });
      }
    }
    throw new Error("the loop does not end");
  },
  responses_by_socket: async () => {
    const tools = Object.keys(words).map((name) => ({ type: "function" as const, name, parameters, strict: false }));
    const socket = new ResponsesWS(client);
    const limits = { maxLanes: 1, maxBufferedEvents: 10_000, maxBufferedBytes: 10_000_000 };
    const lane = new ResponsesWebSocketSession(socket, limits).lane("main");
    let more: { input: OpenAI.Responses.ResponseInput; previous_response_id?: string } = { input: [user(twoTools)] };
    try {
      await new Promise<void>((resolve, reject) => {
        socket.socket.on("open", resolve);
        socket.on("error", reject);
      });
      for (let turn = 0; turn < 3; turn += 1) {
        lane.create({ model, tools, store: false, ...more });
        const answer = await lane.finalResponse();
        const calls = answer.output.filter((item) => item.type === "function_call");
        if (calls.length === 0) return expectWords(answer.output_text);
        const results = calls.map(({ call_id, name }) => ({
          type: "function_call_output" as const,
          call_id,
          output: words[name as keyof typeof words],
        }));
        more = { input: results, previous_response_id: answer.id };
      }
      throw new Error("the loop does not end");
    } finally {
      socket.close();
    }
  },
  errors_by_type: async () => {
    for (const [status, kind] of [
      [400, OpenAI.BadRequestError],
      [429, OpenAI.RateLimitError],
      [500, OpenAI.InternalServerError],
    ] as const) {
      const asked = client.chat.completions.create({ model, messages: [failWith(status)] });
      await assert.rejects(asked, (error) => error instanceof kind && error.requestID !== undefined);
    }
  },
  cancel: async () => {
    const slow = user(fake({ text: "a b c d e f", gapMs: 200 }));
    const stream = await client.chat.completions.create({ model, messages: [slow], stream: true });
    for await (const _ of stream) break;
    assert.ok(stream.controller.signal.aborted);
  },
});
