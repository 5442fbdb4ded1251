import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { silentWav } from "#fake-provider/sound.ts";
import { type Json, jsonEventsOf, type Reply } from "./ask.ts";
import { checkCharge } from "./charge.ts";
import { claimOf, endpointCatalog, endpointPrices, postForm, readUntil, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };
const path = "/v1/audio/transcriptions";
const soundMs = 2_500;
const sound = silentWav(soundMs);

function formOf(model: string, fields: Record<string, string> = {}, behaviour?: Behaviour): FormData {
  const form = new FormData();
  form.set("file", new Blob([new Uint8Array(sound)], { type: "audio/wav" }), "speech.wav");
  form.set("model", model);
  if (behaviour) form.set("prompt", behaviourText(behaviour));
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return form;
}

const hear = (secret: string, form: FormData): Promise<Reply> => postForm(relayUrl, secret, { path, form });

const typesOf = (stream: string): string[] => jsonEventsOf(stream).map(({ type }) => String(type));

describe(
  "API spec, Not supported or not checked: `POST /v1/audio/transcriptions` | Not checked — passed through and metered",
  atOnce,
  () => {
    const told: [string, string, Record<string, string>, Units][] = [
      ["by duration, json", "minutes-model", {}, endpointPrices.minutes],
      ["by duration, verbose_json", "minutes-model", { response_format: "verbose_json" }, endpointPrices.minutes],
      ["by tokens, json", "listening-model", { prompt: "a b" }, endpointPrices.listening],
      ["by tokens, streamed", "listening-model", { stream: "true" }, endpointPrices.listening],
    ];
    for (const [kind, model, fields, prices] of told) {
      test(`priced ${kind}: one ledger line of what the provider told`, async () => {
        const customer = await world.createCustomer();
        const reply = await hear(customer.secret, formOf(model, fields));
        assert.equal(reply.status, 200, reply.text);
        assert.match(reply.text, /word1 word2 word3|word1".*" word2".*" word3"/s);
        const provider = claimOf(await truthOf(world, reply.rid));
        if (model === "minutes-model") assert.deepEqual(provider, { mediaMs: 3_000n });
        else assert.deepEqual([provider.audioInputTokens, provider.outputTokens], [30n, 3n]);
        const charge = { provider };
        const line = await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge, prices });
        assert.equal(line.usage.endpoint, path);
      });
    }

    test("a stream of transcript.text.delta and .done", async () => {
      const { secret } = await world.createCustomer();
      const { text, headers } = await hear(secret, formOf("listening-model", { stream: "true" }));
      assert.equal(headers.get("content-type"), "text/event-stream; charset=utf-8");
      const deltas = Array.from({ length: 3 }, () => "transcript.text.delta");
      assert.deepEqual(typesOf(text), [...deltas, "transcript.text.done"]);
    });

    test("subtitles and plain text come as text; their length is read from the file, and is no shorter than the last cue", async () => {
      for (const [format, start, mediaMs] of [
        ["srt", "1\n00:00:00,000 -->", 3_000n],
        ["vtt", "WEBVTT", 3_000n],
        ["text", "word1 word2 word3\n", BigInt(soundMs)],
      ] as const) {
        const customer = await world.createCustomer();
        const reply = await hear(customer.secret, formOf("minutes-model", { response_format: format }));
        assert.equal(reply.headers.get("content-type"), "text/plain; charset=utf-8");
        assert.ok(reply.text.startsWith(start), reply.text);
        const charge = { counted: { mediaMs } };
        await checkCharge(world, customer, {
          rid: reply.rid,
          endCause: COMPLETE,
          charge,
          prices: endpointPrices.minutes,
        });
      }
    });

    test("the upstream gets the form as it was sent, with its own model name in it", async () => {
      const { secret } = await world.createCustomer();
      const fields = { language: "en", "timestamp_granularities[]": "word", unheard_of: "Grüße" };
      const { rid } = await hear(secret, formOf("minutes-model", fields));
      const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
      const { file, ...rest } = received?.body ?? {};
      assert.deepEqual(rest, { model: "whisper-1", ...fields });
      const { name, type, bytes } = file as { name: string; type: string; bytes: Buffer };
      assert.deepEqual([name, type, bytes.equals(sound)], ["speech.wav", "audio/wav", true]);
    });

    test("API spec, Cases: Required field missing; a chat model is told where it is served; Invalid API key", async () => {
      const { secret } = await world.createCustomer();
      const side = sideOf(path);
      const deaf = formOf("minutes-model");
      deaf.delete("file");
      checkRefusal(side, await hear(secret, deaf), rows.fieldRequired("file"));
      checkRefusal(side, await hear(secret, formOf("test-model")), rows.wrongEndpoint(path));
      checkRefusal(side, await hear("sk-wrong", formOf("minutes-model")), rows.keyInvalid);
    });

    for (const [behaviour, status] of [
      [{ status: 400 }, 400],
      [{ status: 429 }, 429],
      [{ status: 500 }, 500],
      [{ isHtml: true }, 502],
    ] as const) {
      for (const fields of [{}, { stream: "true" }]) {
        test(`an upstream's ${JSON.stringify(behaviour)} costs nothing, ${JSON.stringify(fields)}`, async () => {
          const customer = await world.createCustomer();
          const reply = await hear(customer.secret, formOf("listening-model", fields, behaviour));
          assert.equal(reply.status, status);
          assert.ok((reply.json() as { error: Json }).error["message"]);
          await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
        });
      }
    }

    test("a model that does not stream answers whole although a stream was asked for", async () => {
      const customer = await world.createCustomer();
      const reply = await hear(customer.secret, formOf("minutes-model", { stream: "true" }));
      assert.deepEqual([reply.status, reply.json()["text"]], [200, "word1 word2 word3"]);
      const charge = { provider: { mediaMs: 3_000n } };
      await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge,
        prices: endpointPrices.minutes,
      });
    });
  },
);

const cuts: [Behaviour["fault"] & object, EndCause, number][] = [
  [{ kind: "cut", afterChunks: 2 }, UPSTREAM_CUT, 2],
  [{ kind: "error-event", afterChunks: 1 }, UPSTREAM_ERROR, 1],
  [{ kind: "error-event" }, UPSTREAM_ERROR, 0],
];

describe("a streamed transcript that stops partway", atOnce, () => {
  for (const [fault, endCause, words] of cuts) {
    test(`${JSON.stringify(fault)}: no transcript.text.done; charged when a word came`, async () => {
      const customer = await world.createCustomer();
      const form = formOf("listening-model", { stream: "true" }, { fault, text: "one two three" });
      const { rid, text } = await hear(customer.secret, form);
      assert.equal(typesOf(text).filter((type) => type === "transcript.text.delta").length, words);
      assert.ok(!text.includes("transcript.text.done"));
      const line = await world.untilBooked(customer.accountId, rid);
      assert.equal(line.usage.endCause, endCause);
      assert.equal(line.amountNanos < 0n, words > 0);
    });
  }

  test("transcript.text.done arrived: the answer is whole, whatever becomes of the connections behind it", async () => {
    const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const fault = { kind: "stall" as const, withheldFrames: 0 };
    const body = formOf("listening-model", { stream: "true" }, { fault });
    const request = { headers: { authorization: `Bearer ${customer.secret}` }, body };
    const { rid } = await readUntil(`${relayUrl}${path}`, request, "transcript.text.done");
    const charge = { provider: claimOf(await truthOf(world, rid)) };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.listening });
  });
});

describe("POST /v1/audio/translations, of which the API spec says nothing, is passed through and metered likewise", () => {
  const translations = "/v1/audio/translations";

  for (const [format, start] of [
    ["json", '{"text":"word1 word2 word3"'],
    ["verbose_json", '{"task":"translate"'],
    ["srt", "1\n00:00:00,000 -->"],
  ] as const) {
    test(`as ${format}: one ledger line of the sound that was heard`, async () => {
      const customer = await world.createCustomer();
      const form = formOf("translating-model", { response_format: format });
      const reply = await postForm(relayUrl, customer.secret, { path: translations, form });
      assert.equal(reply.status, 200, reply.text);
      assert.ok(reply.text.startsWith(start), reply.text);
      const heard = { mediaMs: 3_000n };
      const charge = format === "srt" ? { counted: heard } : { provider: heard };
      const prices = endpointPrices.minutes;
      const line = await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge, prices });
      assert.equal(line.usage.endpoint, translations);
    });
  }

  test("a model that only writes down is told where it is served", async () => {
    const { secret } = await world.createCustomer();
    const reply = await postForm(relayUrl, secret, { path: translations, form: formOf("minutes-model") });
    assert.equal(reply.status, 400);
    assert.match(
      reply.text,
      /minutes-model is not served at \/v1\/audio\/translations but at \/v1\/audio\/transcriptions/,
    );
  });
});
