import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import type { Json } from "./ask.ts";
import { checkCharge } from "./charge.ts";
import { pixelBase64, warm } from "./clients-cases.ts";
import {
  callers,
  cells,
  type ClientName,
  conversionCatalog,
  type ParsedAnswer,
  modelOf,
  type ProviderName,
  textPart,
  tools,
} from "./conversion.ts";
import { claimOf, truthOf } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;

// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };
const ways = [false, true];
const nameOf = (client: ClientName, provider: ProviderName, isStream: boolean): string =>
  `${client} → ${provider}, ${isStream ? "streamed" : "whole"}`;

/** The body that the upstream got for a call. */
function receivedOf(rid: string): Json {
  const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
  assert.ok(received?.body, "the upstream got it");
  return received.body;
}

type Claim = { [bucket in "inputTokens" | "cacheReadTokens" | "outputTokens" | "reasoningTokens"]: number };

/** Some counts as the caller's format tells them: Format A counts the cached input and the reasoning in, B does not. */
function countsOf(client: ClientName, { usage }: ParsedAnswer): number[] {
  const inner = (name: string, field: string): unknown => (usage[name] as Json)[field];
  if (client === "chat") {
    const details = inner("prompt_tokens_details", "cached_tokens");
    const thought = inner("completion_tokens_details", "reasoning_tokens");
    return [usage["prompt_tokens"], details, usage["completion_tokens"], thought, usage["total_tokens"]] as number[];
  }
  if (client === "responses") {
    const details = inner("input_tokens_details", "cached_tokens");
    const thought = inner("output_tokens_details", "reasoning_tokens");
    return [usage["input_tokens"], details, usage["output_tokens"], thought, usage["total_tokens"]] as number[];
  }
  const read = usage["cache_read_input_tokens"];
  const thought = inner("output_tokens_details", "thinking_tokens");
  return [usage["input_tokens"], read, usage["output_tokens"], thought] as number[];
}

function wantedCounts(client: ClientName, claim: Claim): number[] {
  const { inputTokens, cacheReadTokens, outputTokens, reasoningTokens } = claim;
  const output = outputTokens + reasoningTokens;
  if (client === "messages") return [inputTokens, cacheReadTokens, output, reasoningTokens];
  const input = inputTokens + cacheReadTokens;
  return [input, cacheReadTokens, output, reasoningTokens, input + output];
}

const claim: Claim = { inputTokens: 101, cacheReadTokens: 211, outputTokens: 53, reasoningTokens: 61 };
const callsFinish = { chat: "tool_calls", responses: "completed", messages: "tool_use" };
const plainFinish = { chat: "stop", responses: "completed", messages: "end_turn" };

/** Whether the upstream's own state of its thinking stands in what it got. */
function hasState(provider: ProviderName, received: Json): boolean {
  const text = JSON.stringify(received);
  assert.ok(!text.includes("relay."), `no note of ours reaches an upstream: ${text}`);
  if (provider === "messages") return /"type":"thinking","thinking":"Let me think\.","signature":"EqQB/.test(text);
  if (provider === "responses") return text.includes(`"encrypted_content":"gAAAAAfake-`);
  if (provider === "gemini")
    return text.includes(`"thoughtSignature":"${Buffer.from("fake-signature-").toString("base64")}`);
  // Chat issues no state.
  return true;
}

/** What callers are told to have lost when they send thinking back: OpenAI's chat takes none. */
function droppedOnReturn(client: ClientName, provider: ProviderName): string | null {
  if (provider !== "chat" || client === "chat") return null;
  return client === "messages" ? "thinking.thinking" : "input.summary";
}

/** Rows of the API spec's table of conversions; conversion-requests.test.ts has the first. */
const rows: { client: ClientName; providers: ProviderName[]; quote: string }[] = [
  {
    client: "responses",
    providers: ["messages", "gemini"],
    quote: "Format B provider's or a third provider's model via `/v1/responses`",
  },
  {
    client: "messages",
    providers: ["chat", "responses", "gemini"],
    quote: "Format A provider's or a third provider's model via `/v1/messages`",
  },
];

function rowOf(client: ClientName, provider: ProviderName, isStream: boolean): string {
  const row = rows.find((one) => one.client === client && one.providers.includes(provider));
  const works = client === "responses" ? "Works" : `Text, tool calls${isStream ? " and streaming work" : ""}`;
  return row ? `API spec, Conversion between formats: ${row.quote} | ${works}: ` : "";
}

describe(
  "API spec, What the service does: 3. A model can be called in a format that differs from its provider's format. The service then converts request and response. Thinking, text, parallel calls, a call without arguments and their results: there and back",
  atOnce,
  () => {
    for (const { client, provider } of cells) {
      for (const isStream of ways) {
        test(`${rowOf(client, provider, isStream)}${nameOf(client, provider, isStream)}`, async () => {
          const customer = await world.createCustomer();
          const { ask, question, results } = callers[client];
          const behaviour: Behaviour = { thinking: "Let me think.", text: "I will look.", tools, usage: claim };
          const asked = "How warm is it, and how late?";
          const history = [question(behaviourText(behaviour, asked))];
          const asking = { model: modelOf(provider), isStream, hasTools: true };
          const heard = await ask(relayUrl, customer.secret, { ...asking, history });
          assert.deepEqual([heard.text, heard.thinking], ["I will look.", "Let me think."]);
          const called = heard.calls.map(({ name, input }) => ({ name, arguments: JSON.parse(input) as unknown }));
          assert.deepEqual(called, tools);
          for (const { id } of heard.calls) assert.match(id, /^[A-Za-z0-9_-]{1,64}$/);
          assert.equal(heard.finish, callsFinish[client]);
          assert.equal(heard.headers.get("x-relay-dropped"), null);
          assert.deepEqual(countsOf(client, heard), wantedCounts(client, claim));
          const charge = { provider: claimOf(await truthOf(world, heard.rid)) };
          await checkCharge(world, customer, { rid: heard.rid, endCause: EndCause.COMPLETE, charge });

          const given = heard.calls.map((call, index) => ({ call, result: index === 0 ? warm : "It is late." }));
          const again = [question(asked), ...heard.said, ...results(given, behaviourText({ text: "Warm and late." }))];
          const answer = await ask(relayUrl, customer.secret, { ...asking, history: again });
          assert.deepEqual([answer.text, answer.finish], ["Warm and late.", plainFinish[client]]);
          const received = receivedOf(answer.rid);
          for (const said of [warm, "It is late.", "I will look.", "New York City"]) {
            assert.equal(JSON.stringify(received).split(said).length, 2, `${said} once in ${JSON.stringify(received)}`);
          }
          assert.ok(hasState(provider, received), JSON.stringify(received));
          assert.equal(answer.headers.get("x-relay-dropped"), droppedOnReturn(client, provider));
        });
      }
    }
  },
);

const capFields = { chat: "max_completion_tokens", responses: "max_output_tokens", messages: "max_tokens" };
const lengthFinish = { chat: "length", responses: "max_output_tokens", messages: "max_tokens" };
const refusalFinish = { chat: "content_filter", responses: "content_filter", messages: "refusal" };
const providersRefusal = { chat: "content_filter", responses: "content_filter", messages: "refusal", gemini: "SAFETY" };

describe("an answer that its limit ended, or the provider's own filter, says so in the caller's words", atOnce, () => {
  for (const { client, provider } of cells) {
    for (const isStream of ways) {
      test(nameOf(client, provider, isStream), async () => {
        const customer = await world.createCustomer();
        const { ask, question } = callers[client];
        const asking = { model: modelOf(provider), isStream, more: { [capFields[client]]: 3 } };
        const behaviour: Behaviour = { outputTokens: 50 };
        const cut = await ask(relayUrl, customer.secret, { ...asking, history: [question(behaviourText(behaviour))] });
        assert.deepEqual([cut.text, cut.finish], ["word1 word2 word3", lengthFinish[client]]);
        const charge = { provider: claimOf(await truthOf(world, cut.rid)) };
        assert.equal(charge.provider.outputTokens, 3n);
        await checkCharge(world, customer, { rid: cut.rid, endCause: EndCause.COMPLETE, charge });

        const filtered = behaviourText({ ...behaviour, finish: providersRefusal[provider] });
        const refused = await ask(relayUrl, customer.secret, { ...asking, history: [question(filtered)] });
        assert.equal(refused.finish, refusalFinish[client]);
        await world.untilBooked(customer.accountId, refused.rid);
      });
    }
  }
});

const picture = `data:image/png;base64,${pixelBase64}`;
const receivedPictures: Record<ProviderName, Json> = {
  chat: { type: "image_url", image_url: { url: picture } },
  responses: { type: "input_image", image_url: picture },
  messages: { type: "image", source: { type: "base64", media_type: "image/png", data: pixelBase64 } },
  gemini: { inlineData: { mimeType: "image/png", data: pixelBase64 } },
};

describe("a picture as input reaches the upstream in its own words, beside the text", atOnce, () => {
  for (const { client, provider } of cells) {
    test(`${client} → ${provider}`, async () => {
      const customer = await world.createCustomer();
      const { ask, question, picture: pictureOf } = callers[client];
      const history = [question([pictureOf(pixelBase64), textPart(client, "What is it?")])];
      const { rid, headers } = await ask(relayUrl, customer.secret, {
        model: modelOf(provider),
        history,
        isStream: false,
      });
      const received = receivedOf(rid);
      const [turn] = (received["messages"] ?? received["input"] ?? received["contents"]) as Json[];
      assert.ok(turn);
      const [first, second] = (turn["content"] ?? turn["parts"]) as Json[];
      assert.deepEqual(first, receivedPictures[provider]);
      assert.equal(second?.["text"], "What is it?");
      assert.equal(headers.get("x-relay-dropped"), null);
    });
  }
});
