import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { eventsOf, type Json, jsonEventsOf, type Reply } from "./ask.ts";
import { type Charge, checkCharge } from "./charge.ts";
import { claimOf, endpointCatalog, endpointPrices, post, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };
const path = "/v1/completions";
const prices = endpointPrices.completion;

// Cached input has no price of its own here, and costs as input.
const withCache = { ...prices, cacheReadTokens: prices.inputTokens };

const bodyOf = (behaviour: Behaviour, more: Json = {}): Json => ({
  model: "completion-model",
  prompt: behaviourText(behaviour, "Once upon"),
  ...more,
});

const complete = (secret: string, behaviour: Behaviour, more: Json = {}): Promise<Reply> =>
  post(relayUrl, secret, { path, body: bodyOf(behaviour, more) });

type Choice = { text: string; index: number; finish_reason: string | null };

const choicesOf = (stream: string): Choice[] => jsonEventsOf(stream).flatMap(({ choices }) => choices as Choice[]);

/** All text that a stream has delivered. */
const textOf = (stream: string): string =>
  choicesOf(stream)
    .map(({ text }) => text)
    .join("");

describe("API spec, Endpoints: `POST /v1/completions` | A | Older text completion", atOnce, () => {
  const asks: [string, Behaviour, Json][] = [
    ["one choice", {}, {}],
    ["n choices", {}, { n: 3 }],
    ["the prompt echoed", {}, { echo: true }],
    ["counts as the provider told them", { usage: { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12 } }, {}],
  ];
  for (const [kind, behaviour, more] of asks) {
    for (const stream of [false, true]) {
      test(`${kind}, ${stream ? "streamed" : "whole"}: one ledger line of exactly it`, async () => {
        const customer = await world.createCustomer();
        const reply = await complete(customer.secret, behaviour, { ...more, stream });
        assert.equal(reply.status, 200, reply.text);
        const truth = await truthOf(world, reply.rid);
        assert.equal(truth.isClaimEmitted, true, "a stream is asked for its counts, too");
        const charge = { provider: claimOf(truth) };
        await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge, prices: withCache });
      });
    }
  }

  test("token counts arrive before [DONE] when they were asked for, and only then", async () => {
    const { secret } = await world.createCustomer();
    const asked = await complete(secret, {}, { stream: true, stream_options: { include_usage: true } });
    const unasked = await complete(secret, {}, { stream: true });
    const last = jsonEventsOf(asked.text).at(-1);
    assert.deepEqual([last?.["choices"], (last?.["usage"] as Json | undefined)?.["completion_tokens"]], [[], 8]);
    assert.ok(jsonEventsOf(unasked.text).every(({ usage }) => (usage ?? null) === null));
    for (const { text } of [asked, unasked]) {
      assert.equal(textOf(text), "word1 word2 word3 word4 word5 word6 word7 word8");
      assert.equal(eventsOf(text).at(-1), "[DONE]");
    }
  });

  test("a limit ends with finish_reason length; the upstream got the caller's bytes and its own model name", async () => {
    const { secret } = await world.createCustomer();
    const { rid, json } = await complete(secret, {}, { max_tokens: 2, suffix: "!" });
    const [choice] = json()["choices"] as Choice[];
    assert.deepEqual([choice?.text, choice?.finish_reason], ["word1 word2", "length"]);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    const sent = bodyOf({}, { max_tokens: 2, suffix: "!" });
    assert.equal(received?.rawBody.toString(), JSON.stringify({ ...sent, model: "gpt-fake-instruct" }));
  });

  test("API spec, Cases: Required field missing; and a chat model is told where it is served", async () => {
    const { secret } = await world.createCustomer();
    const missing = await post(relayUrl, secret, { path, body: { model: "completion-model" } });
    checkRefusal(sideOf(path), missing, rows.fieldRequired("prompt"));
    const chatModel = await post(relayUrl, secret, { path, body: { ...bodyOf({}), model: "test-model" } });
    checkRefusal(sideOf(path), chatModel, rows.wrongEndpoint(path));
  });

  for (const [behaviour, status] of [
    [{ status: 400 }, 400],
    [{ status: 429 }, 429],
    [{ status: 500 }, 500],
    [{ isHtml: true }, 502],
  ] as const) {
    test(`an upstream's ${JSON.stringify(behaviour)} is a ${status} and costs nothing`, async () => {
      const customer = await world.createCustomer();
      const { rid, status: seen } = await complete(customer.secret, behaviour);
      assert.equal(seen, status);
      await checkCharge(world, customer, { rid, endCause: UPSTREAM_ERROR, charge: "nothing", prices });
    });
  }
});

const cuts: [Behaviour["fault"] & object, EndCause, string][] = [
  [{ kind: "cut", afterChunks: 3 }, UPSTREAM_CUT, "word1 word2 word3"],
  [{ kind: "end-early", afterChunks: 2 }, UPSTREAM_CUT, "word1 word2"],
  [{ kind: "error-event", afterChunks: 2 }, UPSTREAM_ERROR, "word1 word2"],
  [{ kind: "cut" }, UPSTREAM_CUT, ""],
];

describe("a streamed completion that stops partway ends as chat does", atOnce, () => {
  for (const [fault, endCause, said] of cuts) {
    test(`${JSON.stringify(fault)}: no finish_reason, what came before is charged`, async () => {
      const customer = await world.createCustomer();
      const { text, rid } = await complete(customer.secret, { fault }, { stream: true });
      assert.ok(choicesOf(text.replace(/data: \{"error".*\n\n/, "")).every((choice) => !choice.finish_reason));
      if (fault.kind === "error-event") assert.match(text, /data: \{"error":/);
      else assert.equal(eventsOf(text).at(-1), "[DONE]");
      const sentBody = JSON.stringify(bodyOf({ fault }, { stream: true }));
      const charge: Charge = said === "" ? "nothing" : { sentBody, sentText: said };
      await checkCharge(world, customer, { rid, endCause, charge, prices });
    });
  }
});
