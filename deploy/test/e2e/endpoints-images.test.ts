import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { chat, eventsOf, type Json, jsonEventsOf, type Reply } from "./ask.ts";
import { type Charge, checkCharge, estimatedInput } from "./charge.ts";
import { claimOf, endpointCatalog, endpointPrices, post, readUntil, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };
const path = "/v1/images/generations";

const bodyOf = (model: string, more: Json = {}, behaviour: Behaviour = {}): Json => ({
  model,
  prompt: behaviourText(behaviour, "a red fox"),
  ...more,
});

const paint = (secret: string, body: Json): Promise<Reply> => post(relayUrl, secret, { path, body });

type Picture = { b64_json?: string; url?: string };

const typesOf = (stream: string): string[] =>
  jsonEventsOf(stream).map(({ type }) => String(type).replace("image_generation.", ""));

describe("API spec, Endpoints: `POST /v1/images/generations` | A | Generate images", atOnce, () => {
  const tokenAsks: [string, Json, bigint][] = [
    ["one of medium quality", {}, 1_056n],
    ["two large ones of high quality", { n: 2, size: "1024x1536", quality: "high" }, 12_480n],
    ["one of low quality", { quality: "low" }, 272n],
  ];
  for (const [kind, more, imageOutputTokens] of tokenAsks) {
    test(`priced by tokens, ${kind}: one ledger line of the tokens that the provider told`, async () => {
      const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
      const reply = await paint(customer.secret, bodyOf("gpt-image-model", more));
      const { data, usage } = reply.json() as { data: Picture[]; usage: Json };
      assert.equal(data.length, more["n"] ?? 1);
      assert.match(Buffer.from(data[0]?.b64_json ?? "", "base64").toString("latin1"), /^\x89PNG/);
      assert.equal(usage["output_tokens"], Number(imageOutputTokens));
      const provider = claimOf(await truthOf(world, reply.rid));
      assert.equal(provider.imageOutputTokens, imageOutputTokens);
      await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge: { provider },
        prices: endpointPrices.image,
      });
    });
  }

  for (const partials of [0, 2]) {
    test(`streamed with ${partials} partial images: image_generation events in order, charged as told`, async () => {
      const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
      const asked = bodyOf("gpt-image-model", { stream: true, partial_images: partials, quality: "low" });
      const reply = await paint(customer.secret, asked);
      assert.deepEqual(typesOf(reply.text), [...Array.from({ length: partials }, () => "partial_image"), "completed"]);
      const provider = claimOf(await truthOf(world, reply.rid));
      assert.equal(provider.imageOutputTokens, 272n + 100n * BigInt(partials));
      await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge: { provider },
        prices: endpointPrices.image,
      });
    });
  }

  const pictureAsks: [string, Json, Units][] = [
    ["one", {}, endpointPrices.picture],
    ["three", { n: 3 }, endpointPrices.picture],
    ["as bytes", { response_format: "b64_json" }, endpointPrices.picture],
    ["in a dearer size", { n: 2, size: "1792x1024" }, endpointPrices.largePicture],
  ];
  for (const [kind, more, prices] of pictureAsks) {
    test(`priced by the image, ${kind}: one ledger line of the images that came`, async () => {
      const customer = await world.createCustomer();
      const reply = await paint(customer.secret, bodyOf("picture-model", more));
      const { data } = reply.json() as { data: Picture[] };
      assert.ok(data.every(({ url, b64_json: bytes }) => (more["response_format"] ? bytes && !url : url && !bytes)));
      const charge = { counted: { images: BigInt(data.length) } };
      assert.equal(data.length, more["n"] ?? 1);
      await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge, prices });
    });
  }

  test("fewer images than asked for: only those that came are charged", async () => {
    const customer = await world.createCustomer();
    const reply = await paint(customer.secret, bodyOf("picture-model", { n: 4 }, { choices: 1 }));
    const charge = { counted: { images: 1n } };
    await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge, prices: endpointPrices.picture });
  });

  test("a picture of 4 MB passes whole and streamed", async () => {
    const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
    for (const stream of [false, true]) {
      const body = bodyOf("gpt-image-model", { stream }, { textBytes: 4_000_000 });
      const { text } = await paint(customer.secret, body);
      const json = stream ? JSON.parse(eventsOf(text).at(-1) ?? "") : (JSON.parse(text) as { data: Picture[] }).data[0];
      assert.equal(Buffer.from((json as Picture).b64_json ?? "", "base64").length, 4_000_000);
    }
    await world.untilSettled(customer.accountId, 2);
  });

  test("the upstream gets the caller's bytes with its own model name in them, and nothing added", async () => {
    const { secret } = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const body = bodyOf("gpt-image-model", { background: "transparent", output_format: "webp", unheard_of: [1.1] });
    const { rid } = await paint(secret, body);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    assert.equal(received?.rawBody.toString(), JSON.stringify({ ...body, model: "gpt-image-fake" }));
  });

  test("API spec, Cases: Required field missing; and a chat model is told where it is served", async () => {
    const { secret } = await world.createCustomer();
    checkRefusal(sideOf(path), await paint(secret, { model: "gpt-image-model" }), rows.fieldRequired("prompt"));
    checkRefusal(sideOf(path), await paint(secret, bodyOf("test-model")), rows.wrongEndpoint(path));
  });

  test("API spec, Cases: Insufficient balance | 403, by the price of the images asked for", async () => {
    const { secret } = await world.createCustomer({ creditNanos: 50_000_000n });
    checkRefusal(sideOf(path), await paint(secret, bodyOf("picture-model", { n: 2 })), rows.balance);
    assert.equal((await paint(secret, bodyOf("picture-model", { n: 1 }))).status, 200);
  });

  for (const [behaviour, status] of [
    [{ status: 400 }, 400],
    [{ status: 429 }, 429],
    [{ status: 503 }, 503],
    [{ isHtml: true }, 502],
  ] as const) {
    for (const stream of [false, true]) {
      test(`an upstream's ${JSON.stringify(behaviour)}, ${stream ? "streamed" : "whole"}, costs nothing`, async () => {
        const customer = await world.createCustomer();
        const { rid, status: seen } = await paint(customer.secret, bodyOf("gpt-image-model", { stream }, behaviour));
        assert.equal(seen, status);
        await checkCharge(world, customer, { rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
      });
    }
  }
});

const cuts: [Behaviour["fault"] & object, EndCause, number][] = [
  [{ kind: "cut", afterChunks: 1 }, UPSTREAM_CUT, 1],
  [{ kind: "end-early", afterChunks: 2 }, UPSTREAM_CUT, 2],
  [{ kind: "error-event", afterChunks: 1 }, UPSTREAM_ERROR, 1],
  [{ kind: "cut" }, UPSTREAM_CUT, 0],
  [{ kind: "error-event" }, UPSTREAM_ERROR, 0],
];

describe("streamed images that stop partway", atOnce, () => {
  for (const [fault, endCause, partials] of cuts) {
    test(`${JSON.stringify(fault)}: no completed image; charged as asked for when a partial one came`, async () => {
      const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
      const body = bodyOf("gpt-image-model", { stream: true, partial_images: 2, quality: "low" }, { fault });
      const { rid, text } = await paint(customer.secret, body);
      assert.ok(!typesOf(text).includes("completed"));
      assert.equal(typesOf(text).filter((type) => type === "partial_image").length, partials);
      assert.equal(/"type":"error"/.test(text), fault.kind === "error-event");
      // A low image has at most 408 tokens.
      const inputTokens = estimatedInput(JSON.stringify(body));
      const charge: Charge = partials > 0 ? { counted: { inputTokens, imageOutputTokens: 408n } } : "nothing";
      await checkCharge(world, customer, { rid, endCause, charge, prices: endpointPrices.image });
    });
  }

  test("image_generation.completed arrived: the answer is whole, whatever becomes of the connections behind it", async () => {
    const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const fault = { kind: "stall" as const, withheldFrames: 0 };
    const body = JSON.stringify(bodyOf("gpt-image-model", { stream: true }, { fault }));
    const request = { headers: chat.headers(customer.secret), body };
    const { rid } = await readUntil(`${relayUrl}${path}`, request, "image_generation.completed");
    const charge = { provider: claimOf(await truthOf(world, rid)) };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.image });
  });
});
