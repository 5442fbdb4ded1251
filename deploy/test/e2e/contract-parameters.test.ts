import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ask, bodyOf, chat, eventsOf, type Json, jsonEventsOf, messages, type Reply, type Side } from "./ask.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;
const { secret } = await world.createCustomer();

const send = (side: Side, body: Json | string): Promise<Reply> =>
  ask(`${relayUrl}${side.path}`, {
    headers: side.headers(secret),
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

const optional = "| no |";
const maximum = `${optional} Output token maximum`;
const tools = `${optional} Tool-call definitions and selection`;

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

type Parameters = { side: Side; section: string; passed: [row: string, clauses: string, ...values: Json[]][] };

const formats: Parameters[] = [
  {
    side: chat,
    section: "Chat completions request",
    passed: [
      ["`max_completion_tokens`", maximum, { max_completion_tokens: 50 }, { max_tokens: 50 }],
      ["`temperature`, `top_p`", `${optional} Output variety`, { temperature: 0.2, top_p: 0.9 }, { temperature: 2 }],
      ["`stop`", `${optional} Strings that stop output`, { stop: "END" }, { stop: ["END", "\n\n"] }],
      [
        "`tools`, `tool_choice`",
        tools,
        { tools: [{ type: "function", function: { ...weather, parameters: schema } }], tool_choice: "required" },
        {
          tools: [{ type: "function", function: { ...weather, parameters: schema } }],
          tool_choice: { type: "function", function: { name: weather.name } },
        },
      ],
      [
        "`response_format`",
        `${optional} Output format such as JSON`,
        { response_format: { type: "json_object" } },
        { response_format: { type: "json_schema", json_schema: { name: "weather", schema } } },
      ],
      ["`reasoning_effort`", `${optional} Reasoning depth`, { reasoning_effort: "low" }],
    ],
  },
  {
    side: messages,
    section: "Messages request",
    passed: [
      [
        "`system`",
        `${optional} System prompt`,
        { system: "Be kind." },
        { system: [{ type: "text", text: "Be kind." }] },
      ],
      ["`temperature`, `top_p`, `top_k`", `${optional} Output variety`, { temperature: 0.2, top_p: 0.9, top_k: 5 }],
      ["`stop_sequences`", `${optional} Strings that stop output`, { stop_sequences: ["END"] }],
      [
        "`tools`, `tool_choice`",
        tools,
        { tools: [{ ...weather, input_schema: schema }], tool_choice: { type: "any" } },
      ],
      ["`thinking`", `${optional} Extended thinking settings`, { thinking: { type: "enabled", budget_tokens: 1_024 } }],
      [
        "`metadata`",
        `${optional} Passed to the upstream unchanged`,
        { metadata: { user_id: "u-1", anything: [1, null] } },
      ],
    ],
  },
];

for (const { side, section, passed } of formats) {
  describe(side.path, () => {
    test(`API spec, ${section}: \`model\` | yes | Model ID, which decides what model answers; API spec, Resources and their fields: **Model ID.** passed in the request field \`model\``, async () => {
      const { model: _model, ...body } = rightBody(side);
      checkRefusal(side, await send(side, body), rows.fieldRequired("model"));
      checkRefusal(side, await send(side, { ...body, model: "no-such-model" }), rows.unknownModel("no-such-model"));
      const reply = await send(side, { ...body, model: "renamed-model" });
      assert.equal(reply.json()["model"], "upstream-name");
    });

    const roles = side.format === "A" ? "system, user, assistant and so on" : "user, assistant";
    test(`API spec, ${section}: \`messages\` | yes | \`role\` (${roles}) and \`content\``, async () => {
      const { messages: asked, ...body } = rightBody(side);
      checkRefusal(side, await send(side, body), rows.fieldRequired("messages"));
      assert.equal((await send(side, { ...body, messages: "Hello" })).status, 400);
      const first = side.format === "A" ? [{ role: "system", content: "Be kind." }] : [];
      const more = [
        ...first,
        ...(asked as Json[]),
        { role: "assistant", content: "Yes?" },
        { role: "user", content: "Go on." },
      ];
      await checkPassed(side, { messages: more });
    });

    test(`API spec, ${section}: \`stream\` | no | \`true\` to stream, anything else gives one JSON body`, async () => {
      for (const stream of [undefined, false, true]) {
        const reply = await send(side, rightBody(side, stream === undefined ? {} : { stream }));
        const type = stream ? "text/event-stream; charset=utf-8" : "application/json";
        assert.equal(reply.headers.get("content-type"), type);
        if (stream) assert.ok(jsonEventsOf(reply.text).length > 2);
        else assert.ok(reply.json());
      }
    });

    for (const [row, clauses, ...values] of passed) {
      test(`API spec, ${section}: ${row} ${clauses} reaches the upstream as it was sent, or is left out`, async () => {
        // Nothing is added in its place.
        await checkPassed(side, {});
        for (const value of values) await checkPassed(side, value);
      });
    }
  });
}

test("API spec, Chat completions request: `stream_options` | no | Object; `include_usage` true delivers token counts at the end of the stream", async () => {
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

test("API spec, Messages request: `max_tokens` | yes | Output token maximum", async () => {
  const { max_tokens: _most, ...body } = rightBody(messages);
  checkRefusal(messages, await send(messages, body), rows.fieldRequired("max_tokens"));
  const behaviour = { outputTokens: 50 };
  const short = await send(messages, bodyOf({ side: messages, behaviour, more: { max_tokens: 3 } }));
  const { stop_reason: reason, usage } = short.json() as { stop_reason: string; usage: Json };
  assert.deepEqual([reason, usage["output_tokens"]], ["max_tokens", 3]);
});

test("API spec, Chat completions request: `max_completion_tokens` | no | Output token maximum; the older `max_tokens` is deprecated and bounds it too", async () => {
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
