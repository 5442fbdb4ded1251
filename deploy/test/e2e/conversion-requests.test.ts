import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, type Json, type Reply } from "./ask.ts";
import { pixelBase64, weatherSchema } from "./clients-cases.ts";
import {
  callers,
  type ClientName,
  conversionCatalog,
  modelOf,
  type ProviderName,
  providerNames,
} from "./conversion.ts";
import { checkRefusal, checkUntouched } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;
const customer = await world.createCustomer();

type SentRequest = {
  client: ClientName;
  provider: ProviderName;
  more?: Json;
  headers?: Record<string, string>;
  by?: Customer;
};

/** Asks a model of a provider in a client's format, with fields beside those of a right call. */
function send({ client, provider, more = {}, headers = {}, by = customer }: SentRequest): Promise<Reply> {
  const { side, historyField, question } = callers[client];
  const body = { model: modelOf(provider), ...side.fields, [historyField]: [question("Say something.")], ...more };
  const url = `${relayUrl}${side.path}`;
  return ask(url, { headers: { ...side.headers(by.secret), ...headers }, body: JSON.stringify(body) });
}

function receivedOf({ rid }: Reply): Json {
  const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
  assert.ok(received?.body, "the upstream got it");
  return received.body;
}

/** What the upstream got of a call that must succeed, and what its caller was told to have lost. */
async function sendRight(sent: SentRequest): Promise<{ received: Json; dropped: string | null; reply: Reply }> {
  const reply = await send(sent);
  assert.equal(reply.status, 200, reply.text);
  return { received: receivedOf(reply), dropped: reply.headers.get("x-relay-dropped"), reply };
}

describe("API spec, Conversion between formats: Format B provider's model via `/v1/chat/completions`", () => {
  const sentTo = { client: "chat", provider: "messages" } as const;

  test("`response_format` has no effect: the upstream gets nothing of it, the caller is told; API spec, Chat completions request: `response_format` | no effect on models of the Format B provider", async () => {
    const schema = { type: "json_schema", json_schema: { name: "weather", schema: weatherSchema } };
    const plain = await sendRight(sentTo);
    for (const format of [{ type: "json_object" }, schema]) {
      const { received, dropped } = await sendRight({ ...sentTo, more: { response_format: format } });
      assert.deepEqual(received, plain.received);
      assert.equal(dropped, "response_format");
    }
    const { dropped } = await sendRight({ ...sentTo, more: { response_format: { type: "text" } } });
    assert.equal(dropped, null, "text is what it says anyway");
  });

  test("`reasoning_effort` is replaced by the provider's thinking setting", async () => {
    const budgets: number[] = [];
    for (const effort of ["minimal", "low", "medium", "high"]) {
      const { received, dropped } = await sendRight({ ...sentTo, more: { reasoning_effort: effort } });
      const { type, budget_tokens: budget } = received["thinking"] as { type: string; budget_tokens: number };
      assert.deepEqual([type, dropped, received["reasoning_effort"]], ["enabled", null, undefined]);
      assert.ok(budget >= 1_024 && budget < Number(received["max_tokens"]), `${budget}`);
      budgets.push(budget);
    }
    assert.deepEqual(
      budgets,
      budgets.toSorted((one, other) => one - other),
      "more effort, more thinking",
    );
    const { received } = await sendRight({ ...sentTo, more: { reasoning_effort: "none" } });
    assert.deepEqual(received["thinking"] ?? { type: "disabled" }, { type: "disabled" });
  });

  test("`max_tokens` defaults to 8192 when not set; API spec, Limits: Default `max_tokens` | 8192 for a Format B provider's model called via chat completions without `max_tokens`", async () => {
    const { received } = await sendRight(sentTo);
    assert.equal(received["max_tokens"], 8_192);
    for (const name of ["max_tokens", "max_completion_tokens"]) {
      const { received: capped, dropped } = await sendRight({ ...sentTo, more: { [name]: 77 } });
      assert.deepEqual([capped["max_tokens"], dropped], [77, null]);
    }
  });

  test("input token counts follow the Format A way, including cached tokens", async () => {
    const usage = {
      inputTokens: 7,
      cacheReadTokens: 11,
      cacheWrite5mTokens: 13,
      cacheWrite1hTokens: 17,
      outputTokens: 3,
    };
    const messages = [{ role: "user", content: behaviourText({ usage }) }];
    const { reply } = await sendRight({ ...sentTo, more: { messages } });
    const { prompt_tokens: input, prompt_tokens_details: details, ...rest } = reply.json()["usage"] as Json;
    assert.deepEqual([input, rest["completion_tokens"], rest["total_tokens"]], [48, 3, 51]);
    assert.equal((details as Json)["cached_tokens"], 11);
  });
});

test("API spec, Messages request: `metadata` is passed unchanged where the upstream speaks Format B, and its user elsewhere where there is a field", async () => {
  const metadata = { user_id: "u-1" };
  const users = await Promise.all(
    providerNames.map(async (provider) => {
      const { received, dropped } = await sendRight({ client: "messages", provider, more: { metadata } });
      return [provider, received["metadata"] ?? received["safety_identifier"], dropped];
    }),
  );
  assert.deepEqual(users, [
    ["chat", "u-1", null],
    ["responses", "u-1", null],
    ["messages", metadata, null],
    ["gemini", undefined, "metadata.user_id"],
  ]);
});

test("API spec, Messages request: The service removes the parameters `inference_geo`, `service_tier` and `speed`, and does not name them. The processing region is fixed per model", async () => {
  const more = { inference_geo: "us", service_tier: "auto", speed: "fast" };
  for (const provider of providerNames) {
    const plain = await sendRight({ client: "messages", provider });
    const { received, dropped } = await sendRight({ client: "messages", provider, more });
    assert.deepEqual([received, dropped], [plain.received, null]);
  }
});

type Loss = { client: ClientName; provider: ProviderName; more: Json; dropped: string };

const chatSettings = { seed: 1, stop: ["END"], logit_bias: { 5: 1 }, n: 1, presence_penalty: 0.5, top_p: 0.9 };
const responseSettings = { truncation: "auto", max_tool_calls: 2, text: { verbosity: "low" }, top_p: 0.9 };
const messageSettings = {
  top_k: 5,
  stop_sequences: ["END"],
  context_management: { edits: [] },
  metadata: { user_id: "u-1" },
};

const losses: Loss[] = [
  { client: "chat", provider: "responses", more: chatSettings, dropped: "logit_bias, presence_penalty, seed, stop" },
  { client: "chat", provider: "messages", more: chatSettings, dropped: "logit_bias, presence_penalty, seed" },
  { client: "chat", provider: "gemini", more: chatSettings, dropped: "logit_bias" },
  { client: "responses", provider: "chat", more: responseSettings, dropped: "truncation, max_tool_calls" },
  {
    client: "responses",
    provider: "messages",
    more: responseSettings,
    dropped: "truncation, max_tool_calls, text.verbosity",
  },
  {
    client: "responses",
    provider: "gemini",
    more: responseSettings,
    dropped: "truncation, max_tool_calls, text.verbosity",
  },
  { client: "messages", provider: "chat", more: messageSettings, dropped: "context_management, top_k" },
  {
    client: "messages",
    provider: "responses",
    more: messageSettings,
    dropped: "context_management, top_k, stop_sequences",
  },
  { client: "messages", provider: "gemini", more: messageSettings, dropped: "context_management, metadata.user_id" },
];

const strict = { "x-relay-strict": "true" };

describe("API spec, What the service does: 3. some parameters then have no effect: x-relay-dropped names what the upstream's format cannot carry; x-relay-strict refuses instead, for nothing", () => {
  for (const { client, provider, more, dropped } of losses) {
    test(`${client} → ${provider}: ${dropped}`, async () => {
      for (const stream of [false, true]) {
        const told = await sendRight({ client, provider, more: { ...more, stream } });
        assert.equal(told.dropped, dropped);
      }
      const by = await world.createCustomer();
      await checkUntouched(world, by, async () => {
        const [first] = dropped.split(", ");
        const message = `field ${first} cannot be carried to the provider of this model`;
        const refused = await send({ client, provider, more, headers: strict, by });
        checkRefusal(callers[client].side, refused, { status: 400, message, code: "invalid_request" });
      });
      const whole = await sendRight({ client, provider, headers: strict });
      assert.equal(whole.dropped, null);
    });
  }

  test("relay_dropped_fields_total counts them by field; names that callers made up are one series", async () => {
    const count = async (field: string): Promise<number> => {
      const response = await fetch(`${world.stack.addresses.opsUrls.relay}/metrics`);
      const found = new RegExp(`^relay_dropped_fields_total\\{field="${field}"[^}]*\\} (\\d+)$`, "m");
      return Number(found.exec(await response.text())?.[1] ?? 0);
    };
    const [before, others] = [await count("seed"), await count("other")];
    const more = { seed: 1, my_own_field: 1, my_other_field: 2 };
    const { dropped } = await sendRight({ client: "chat", provider: "messages", more });
    assert.equal(dropped, "my_own_field, my_other_field, seed");
    await until("they are counted", async () => (await count("seed")) > before);
    assert.deepEqual([await count("seed"), await count("other")], [before + 1, others + 2]);
    assert.equal(await count("my_own_field"), 0);
  });
});

type UnsupportedCase = { client: ClientName; provider: ProviderName; more: Json; field: RegExp };

const anAudio = { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } };
const serverTool = { type: "web_search_20250305", name: "web_search" };
const fileById = { type: "file", file: { file_id: "file-1" } };

const unsupported: UnsupportedCase[] = [
  {
    client: "chat",
    provider: "messages",
    more: { messages: [{ role: "user", content: [anAudio] }] },
    field: /audio/,
  },
  {
    client: "chat",
    provider: "gemini",
    more: { messages: [{ role: "user", content: [fileById] }] },
    field: /file/,
  },
  ...(["chat", "messages", "gemini"] as const).flatMap((provider): UnsupportedCase[] => [
    { client: "responses", provider, more: { previous_response_id: "resp_1" }, field: /previous_response_id/ },
    {
      client: "responses",
      provider,
      more: { tools: [{ type: "web_search" }], tool_choice: "required" },
      field: /tools\[0\]/,
    },
    { client: "responses", provider, more: { tools: [{ type: "local_shell" }] }, field: /tools\[0\]/ },
  ]),
  ...(["chat", "responses", "gemini"] as const).map((provider): UnsupportedCase => ({
    client: "messages",
    provider,
    more: { tools: [serverTool], tool_choice: { type: "any" } },
    field: /tools/,
  })),
];

describe("what makes no sense without the field is refused by name: nothing charged, no hold, no upstream called", () => {
  for (const { client, provider, more, field } of unsupported) {
    test(`${client} → ${provider}: ${Object.keys(more).join()} ${String(field)}`, async () => {
      const by = await world.createCustomer();
      await checkUntouched(world, by, async () => {
        const reply = await send({ client, provider, more, by });
        const { message } = (reply.json() as { error: { message: string } }).error;
        assert.match(message, field);
        checkRefusal(callers[client].side, reply, { status: 400, message, code: "invalid_request" });
      });
    });
  }
});

describe("a tool that only its provider runs is left out where none must be called, and named", () => {
  const sent: [ClientName, ProviderName[], Json, string][] = [
    ["chat", ["responses", "messages", "gemini"], { web_search_options: {} }, "web_search_options"],
    ["responses", ["chat", "messages", "gemini"], { tools: [{ type: "web_search" }] }, "tools.web_search"],
    ["messages", ["chat", "responses", "gemini"], { tools: [serverTool] }, "tools.web_search_20250305"],
  ];
  for (const [client, providers, more, name] of sent) {
    for (const provider of providers) {
      test(`${client} → ${provider}: ${name}`, async () => {
        const { received, dropped } = await sendRight({ client, provider, more });
        assert.equal(dropped, name);
        assert.doesNotMatch(JSON.stringify(received), /search/);
      });
    }
  }
});

test("a picture by address for an upstream that reads none is never fetched from where the relay itself is", async () => {
  const url = `${fake.url}/picture.png`.replace("http:", "https:");
  for (const address of [url, "http://example.com/a.png", "https://169.254.169.254/latest/meta-data"]) {
    const content = [{ type: "image_url", image_url: { url: address } }];
    const by = await world.createCustomer();
    await checkUntouched(world, by, async () => {
      const messages = [{ role: "user", content }];
      const reply = await send({ client: "chat", provider: "gemini", more: { messages }, by });
      assert.equal(reply.status, 400, reply.text);
      // Nobody waits for the end of the hold that was there before the address was looked at.
      await until("its hold is released", async () => (await world.moneyOf(by.accountId)).openHolds === 0n);
    });
  }
  const inline = [{ type: "image_url", image_url: { url: `data:image/png;base64,${pixelBase64}` } }];
  await sendRight({ client: "chat", provider: "gemini", more: { messages: [{ role: "user", content: inline }] } });
});
