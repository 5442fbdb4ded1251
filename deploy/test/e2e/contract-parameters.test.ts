import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { ask, bodyOf, chat, eventsOf, type Json, jsonEventsOf, messages, type Reply, type Side } from "./ask.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { startWorld } from "./world.ts";

const world = await startWorld();
after(() => world[Symbol.asyncDispose]());
const { relayUrl, fake } = world;
const { secret } = await world.createCustomer();

const send = (side: Side, body: Json | string): Promise<Reply> =>
  ask(`${relayUrl}${side.path}`, {
    headers: side.headers(secret),
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

const rightBody = (side: Side, more: Json = {}): Json => JSON.parse(bodyOf({ side, more })) as Json;

/** Sends fields beside those of a right call and checks that the upstream got exactly the caller's bytes. */
async function checkPassed(side: Side, more: Json): Promise<Reply> {
  const body = JSON.stringify(rightBody(side, more));
  const reply = await send(side, body);
  assert.equal(reply.status, 200, reply.text);
  const received = fake.received.find(({ headers }) => headers["x-request-id"] === reply.rid);
  assert.deepEqual([received?.path, received?.rawBody.toString()], [side.path, body]);
  return reply;
}

const weather = { name: "get_weather", description: "Weather of a city." };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

type Parameters = { side: Side; section: string; passed: [quote: string, ...values: Json[]][] };

const formats: Parameters[] = [
  {
    side: chat,
    section: "Chat completions request",
    passed: [
      ["`max_completion_tokens`", { max_completion_tokens: 50 }, { max_tokens: 50 }],
      ["`temperature`, `top_p`", { temperature: 0.2, top_p: 0.9 }, { temperature: 2 }],
      ["`stop`", { stop: "END" }, { stop: ["END", "\n\n"] }],
      [
        "`tools`, `tool_choice`",
        { tools: [{ type: "function", function: { ...weather, parameters: schema } }], tool_choice: "required" },
        {
          tools: [{ type: "function", function: { ...weather, parameters: schema } }],
          tool_choice: { type: "function", function: { name: weather.name } },
        },
      ],
      [
        "`response_format`",
        { response_format: { type: "json_object" } },
        { response_format: { type: "json_schema", json_schema: { name: "weather", schema } } },
      ],
      ["`reasoning_effort`", { reasoning_effort: "low" }],
    ],
  },
  {
    side: messages,
    section: "Messages request",
    passed: [
      ["`system`", { system: "Be kind." }, { system: [{ type: "text", text: "Be kind." }] }],
      ["`temperature`, `top_p`, `top_k`", { temperature: 0.2, top_p: 0.9, top_k: 5 }],
      ["`stop_sequences`", { stop_sequences: ["END"] }],
      ["`tools`, `tool_choice`", { tools: [{ ...weather, input_schema: schema }], tool_choice: { type: "any" } }],
      ["`thinking`", { thinking: { type: "enabled", budget_tokens: 1_024 } }],
      ["`metadata`", { metadata: { user_id: "u-1", anything: [1, null] } }],
    ],
  },
];

for (const { side, section, passed } of formats) {
  describe(side.path, () => {
    test(`API spec, ${section}: \`model\` is required and decides which model answers`, async () => {
      const { model: _model, ...body } = rightBody(side);
      checkRefusal(side, await send(side, body), rows.fieldRequired("model"));
      checkRefusal(side, await send(side, { ...body, model: "no-such-model" }), rows.unknownModel("no-such-model"));
      const reply = await send(side, { ...body, model: "renamed-model" });
      assert.equal(reply.json()["model"], "upstream-name");
    });

    test(`API spec, ${section}: \`messages\` is required, an array of items with role and content`, async () => {
      const { messages: asked, ...body } = rightBody(side);
      checkRefusal(side, await send(side, body), rows.fieldRequired("messages"));
      assert.equal((await send(side, { ...body, messages: "Hello" })).status, 400);
      const more = [...(asked as Json[]), { role: "assistant", content: "Yes?" }, { role: "user", content: "Go on." }];
      await checkPassed(side, { messages: more });
    });

    test(`API spec, ${section}: \`stream\` true gives events, anything else one JSON body`, async () => {
      for (const stream of [undefined, false, true]) {
        const reply = await send(side, rightBody(side, stream === undefined ? {} : { stream }));
        const type = stream ? "text/event-stream; charset=utf-8" : "application/json";
        assert.equal(reply.headers.get("content-type"), type);
        if (stream) assert.ok(jsonEventsOf(reply.text).length > 2);
        else assert.ok(reply.json());
      }
    });

    for (const [quote, ...values] of passed) {
      test(`API spec, ${section}: ${quote} reaches the upstream as it was sent`, async () => {
        for (const value of values) await checkPassed(side, value);
      });
    }
  });
}

test("API spec, Chat completions request: `stream_options` with include_usage true gives token counts at the end of the stream", async () => {
  const asked = { stream: true, stream_options: { include_usage: true } };
  const counted = await checkPassed(chat, asked);
  assert.equal(eventsOf(counted.text).at(-1), "[DONE]");
  const last = jsonEventsOf(counted.text).at(-1);
  assert.deepEqual(last?.["choices"], []);
  assert.equal(typeof (last?.["usage"] as Json | undefined)?.["total_tokens"], "number");
  for (const more of [{}, { stream_options: { include_usage: false } }]) {
    const uncounted = await send(chat, rightBody(chat, { stream: true, ...more }));
    for (const { usage } of jsonEventsOf(uncounted.text)) assert.equal(usage ?? null, null);
  }
});

test("API spec, Messages request: `max_tokens` is required and bounds the output", async () => {
  const { max_tokens: _most, ...body } = rightBody(messages);
  checkRefusal(messages, await send(messages, body), rows.fieldRequired("max_tokens"));
  const behaviour = { outputTokens: 50 };
  const short = await send(messages, bodyOf({ side: messages, behaviour, more: { max_tokens: 3 } }));
  const { stop_reason: reason, usage } = short.json() as { stop_reason: string; usage: Json };
  assert.deepEqual([reason, usage["output_tokens"]], ["max_tokens", 3]);
});

test("API spec, Chat completions request: `max_completion_tokens` bounds the output, so does the older max_tokens", async () => {
  for (const name of ["max_completion_tokens", "max_tokens"]) {
    const short = await send(chat, bodyOf({ side: chat, behaviour: { outputTokens: 50 }, more: { [name]: 3 } }));
    const { choices, usage } = short.json() as { choices: Json[]; usage: Json };
    assert.deepEqual([choices[0]?.["finish_reason"], usage["completion_tokens"]], ["length", 3]);
  }
});

test("API spec, Versioning: 3. Available parameters and value ranges differ by model. The upstream judges them, in its words", async () => {
  for (const { side } of formats) {
    await checkPassed(side, { temperature: 99, a_parameter_of_tomorrow: { depth: 1 } });
    const error = { message: "temperature must be at most 1", code: "invalid_value" };
    const refused = await send(side, bodyOf({ side, behaviour: { status: 400, error } }));
    assert.equal(refused.status, 400);
    assert.equal((refused.json() as { error: Json }).error["message"], error.message);
  }
});
