import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import type { Json } from "./ask.ts";
import { checkCharge, estimatedInput } from "./charge.ts";
import { claimOf, endpointCatalog, endpointPrices, post, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };
const embeddings = "/v1/embeddings";
const moderations = "/v1/moderations";

type Embeddings = { data: { index: number; embedding: number[] | string }[]; usage?: Json };

function floatsOf(base64: string): number[] {
  const bytes = Buffer.from(base64, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
}

describe("API spec, Endpoints: `POST /v1/embeddings` | A | Convert text to number sequences", atOnce, () => {
  const inputs: [string, unknown, bigint][] = [
    ["a text", "one two three", 3n],
    ["several texts", ["one two", "three four five"], 5n],
    ["token numbers", [10, 20, 30, 40], 4n],
    ["lists of token numbers", [[10, 20], [30]], 3n],
  ];
  for (const [kind, input, inputTokens] of inputs) {
    test(`API spec, Endpoints: \`POST /v1/embeddings\` request: \`input\` (text): ${kind}, one ledger line of the input tokens that the provider told`, async () => {
      const customer = await world.createCustomer();
      const body = { model: "embedding-model", input };
      const reply = await post(relayUrl, customer.secret, { path: embeddings, body });
      assert.equal(reply.status, 200, reply.text);
      const provider = claimOf(await truthOf(world, reply.rid));
      assert.deepEqual(provider, { inputTokens });
      const prices = endpointPrices.embedding;
      const line = await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge: { provider },
        prices,
      });
      assert.equal(line.usage.endpoint, embeddings);
    });
  }

  test("API spec, Endpoints: `POST /v1/embeddings` request: Both number arrays and base64 encodings are supported, exactly as asked; numbers where nothing is asked", async () => {
    const { secret } = await world.createCustomer();
    const ask = async (more: Json): Promise<Embeddings> => {
      const body = { model: "embedding-model", input: ["one", "two"], dimensions: 8, ...more };
      const reply = await post(relayUrl, secret, { path: embeddings, body });
      return reply.json() as Embeddings;
    };
    const [floats, base64, unasked] = await Promise.all([
      ask({ encoding_format: "float" }),
      ask({ encoding_format: "base64" }),
      ask({}),
    ]);
    for (const [index, { embedding }] of floats.data.entries()) {
      assert.ok(Array.isArray(embedding) && embedding.length === 8);
      const encoded = base64.data[index]?.embedding;
      assert.ok(typeof encoded === "string");
      assert.deepEqual(floatsOf(encoded), embedding);
      assert.deepEqual(unasked.data[index]?.embedding, embedding);
    }
  });

  test("the upstream gets the caller's bytes with its own model name in them, and nothing added", async () => {
    const { secret } = await world.createCustomer();
    const body = { model: "embedding-model", input: "x", user: "u-1", dimensions: 4 };
    const { rid } = await post(relayUrl, secret, { path: embeddings, body });
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    assert.equal(received?.rawBody.toString(), JSON.stringify({ ...body, model: "text-embedding-fake" }));
  });

  test("without counts of the provider, the input is counted from what was sent", async () => {
    const customer = await world.createCustomer();
    const body = { model: "embedding-model", input: behaviourText({ usage: "omit" }) };
    const { rid } = await post(relayUrl, customer.secret, { path: embeddings, body });
    const inputTokens = estimatedInput(JSON.stringify(body));
    const charge = { counted: { inputTokens } };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.embedding });
  });

  test("API spec, Endpoints: `POST /v1/embeddings` request: `model` (string, an embedding model ID), else it is told where a model is offered; `input` is required", async () => {
    const { secret } = await world.createCustomer();
    const side = sideOf(embeddings);
    for (const [model, wanted] of [
      ["no-such-model", rows.unknownModel("no-such-model")],
      ["test-model", rows.wrongEndpoint(embeddings)],
    ] as const) {
      const reply = await post(relayUrl, secret, { path: embeddings, body: { model, input: "x" } });
      checkRefusal(side, reply, wanted);
    }
    const missing = await post(relayUrl, secret, { path: embeddings, body: { model: "embedding-model" } });
    checkRefusal(side, missing, rows.fieldRequired("input"));
  });
});

const failures: [Behaviour, number, EndCause][] = [
  [{ status: 400 }, 400, UPSTREAM_ERROR],
  [{ status: 429 }, 429, UPSTREAM_ERROR],
  [{ status: 500 }, 500, UPSTREAM_ERROR],
  [{ status: 401 }, 503, UPSTREAM_ERROR],
  [{ isHtml: true }, 502, UPSTREAM_ERROR],
  [{ fault: { kind: "cut" } }, 500, UPSTREAM_CUT],
];

describe("an embedding or a judgement that fails is told in Format A and costs nothing", atOnce, () => {
  for (const [path, model] of [
    [embeddings, "embedding-model"],
    [moderations, "moderation-model"],
  ] as const) {
    for (const [behaviour, status, endCause] of failures) {
      test(`${path}: ${JSON.stringify(behaviour)} is a ${status}`, async () => {
        const customer = await world.createCustomer();
        const body = { model, input: behaviourText(behaviour) };
        const reply = await post(relayUrl, customer.secret, { path, body });
        assert.equal(reply.status, status, reply.text);
        assert.ok((reply.json() as { error: Json }).error["message"]);
        await checkCharge(world, customer, { rid: reply.rid, endCause, charge: "nothing" });
      });
    }
  }
});

describe("API spec, Endpoints: `POST /v1/moderations` | A | Check text against a usage policy", atOnce, () => {
  const inputs: [string, unknown, boolean[]][] = [
    ["a text", "a song", [false]],
    ["several texts", ["a song", "some violence"], [false, true]],
    ["parts", [{ type: "text", text: "hate" }], [true]],
  ];
  for (const [kind, input, flagged] of inputs) {
    test(`${kind}: judged, and charged as one request`, async () => {
      const customer = await world.createCustomer();
      const body = { model: "moderation-model", input };
      const reply = await post(relayUrl, customer.secret, { path: moderations, body });
      const { results } = reply.json() as { results: { flagged: boolean }[] };
      assert.deepEqual(
        results.map((result) => result.flagged),
        flagged,
      );
      await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge: { counted: { requests: 1n } },
        prices: endpointPrices.moderation,
      });
    });
  }
});
