import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { chat, type Json, jsonEventsOf, type Reply, ridOf } from "./ask.ts";
import { type Charge, checkCharge, estimatedInput } from "./charge.ts";
import { claimOf, endpointCatalog, endpointPrices, post, readUntil, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };
const path = "/v1/audio/speech";

const bodyOf = (model: string, more: Json = {}, behaviour?: Behaviour): Json => ({
  model,
  voice: "alloy",
  input: behaviour ? behaviourText(behaviour, "one two three") : "one two three",
  ...more,
});

const speak = (secret: string, body: Json): Promise<Reply> => post(relayUrl, secret, { path, body });

type Sound = { status: number; type: string | null; rid: string; bytes: Buffer; isBroken: boolean };

/** Reads an answer as bytes, also one that breaks. */
async function listen(url: string, secret: string, body: Json): Promise<Sound> {
  const request = { method: "POST", headers: chat.headers(secret), body: JSON.stringify(body) };
  const response = await fetch(`${url}${path}`, request);
  const pieces: Uint8Array[] = [];
  const reading = async (): Promise<void> => {
    for await (const piece of response.body ?? []) pieces.push(piece as Uint8Array);
  };
  const isBroken = await reading().then(
    () => false,
    () => true,
  );
  const rid = url === relayUrl ? ridOf(response) : "";
  const type = response.headers.get("content-type");
  return { status: response.status, type, rid, bytes: Buffer.concat(pieces), isBroken };
}

const charactersOf = (body: Json): bigint => BigInt(Array.from(String(body["input"])).length);

describe("API spec, Endpoints: `POST /v1/audio/speech` | A | Text to speech", atOnce, () => {
  for (const format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
    test(`${format}: the upstream's very bytes and content type, charged by characters`, async () => {
      const customer = await world.createCustomer();
      const body = bodyOf("voice-model", { response_format: format });
      const heard = await listen(relayUrl, customer.secret, body);
      const direct = await listen(fake.url, "sk-test", body);
      assert.deepEqual([heard.status, heard.isBroken, heard.type], [200, false, direct.type]);
      assert.ok(heard.bytes.length > 0 && heard.bytes.equals(direct.bytes));
      const charge = { counted: { characters: charactersOf(body) } };
      await checkCharge(world, customer, {
        rid: heard.rid,
        endCause: COMPLETE,
        charge,
        prices: endpointPrices.voice,
      });
    });
  }

  test("a character is a code point, not a byte and not half of a pair", async () => {
    const customer = await world.createCustomer();
    const { rid } = await listen(relayUrl, customer.secret, bodyOf("voice-model", { input: "Grüße 🌍!" }));
    const charge = { counted: { characters: 8n } };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.voice });
  });

  test("as events: speech.audio.delta and .done, the same sound, charged by the tokens told", async () => {
    const customer = await world.createCustomer();
    const reply = await speak(customer.secret, bodyOf("spoken-model", { stream_format: "sse" }));
    const events = jsonEventsOf(reply.text);
    assert.equal(events.at(-1)?.["type"], "speech.audio.done");
    const sound = events.flatMap(({ audio }) => (typeof audio === "string" ? [Buffer.from(audio, "base64")] : []));
    const direct = await listen(fake.url, "sk-test", bodyOf("spoken-model"));
    assert.ok(Buffer.concat(sound).equals(direct.bytes));
    const provider = claimOf(await truthOf(world, reply.rid));
    assert.deepEqual(provider, { inputTokens: 3n, audioOutputTokens: 6n });
    await checkCharge(world, customer, {
      rid: reply.rid,
      endCause: COMPLETE,
      charge: { provider },
      prices: endpointPrices.spoken,
    });
  });

  test("priced by tokens and asked for as bytes, which tell no counts: counted from the input", async () => {
    const customer = await world.createCustomer();
    const body = bodyOf("spoken-model");
    const { rid } = await listen(relayUrl, customer.secret, body);
    const inputTokens = estimatedInput(JSON.stringify(body));
    // One and a half tokens of sound to a character.
    const charge = { counted: { inputTokens, audioOutputTokens: 20n } };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.spoken });
  });

  test("the upstream gets the caller's bytes with its own model name in them, and nothing added", async () => {
    const { secret } = await world.createCustomer();
    const body = bodyOf("voice-model", { speed: 1.25, instructions: "Whisper." });
    const { rid } = await listen(relayUrl, secret, body);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    assert.equal(received?.rawBody.toString(), JSON.stringify({ ...body, model: "tts-1" }));
  });

  test("API spec, Cases: Required field missing; and a chat model is told where it is served", async () => {
    const { secret } = await world.createCustomer();
    const side = sideOf(path);
    const mute = await speak(secret, { model: "voice-model", input: "x" });
    checkRefusal(side, mute, rows.fieldRequired("voice"));
    checkRefusal(side, await speak(secret, bodyOf("test-model")), rows.wrongEndpoint(path));
  });

  for (const [behaviour, status] of [
    [{ status: 400 }, 400],
    [{ status: 429 }, 429],
    [{ status: 500 }, 500],
  ] as const) {
    for (const more of [{}, { stream_format: "sse" }]) {
      test(`an upstream's ${status} costs nothing, ${JSON.stringify(more)}`, async () => {
        const customer = await world.createCustomer();
        const reply = await speak(customer.secret, bodyOf("spoken-model", more, behaviour));
        assert.equal(reply.status, status);
        assert.ok((reply.json() as { error: Json }).error["message"]);
        await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
      });
    }
  }
});

type Fault = Behaviour["fault"] & object;

const cuts: [Fault, EndCause, number][] = [
  [{ kind: "cut", afterChunks: 2 }, UPSTREAM_CUT, 2],
  [{ kind: "reset", afterChunks: 1 }, UPSTREAM_CUT, 1],
  [{ kind: "cut" }, UPSTREAM_CUT, 0],
];

describe("speech that stops partway", atOnce, () => {
  for (const [fault, endCause, words] of cuts) {
    test(`bytes, ${JSON.stringify(fault)}: the connection breaks, what came before is charged by characters`, async () => {
      const customer = await world.createCustomer();
      const body = bodyOf("voice-model", {}, { fault, gapMs: 20 });
      const { rid, bytes, isBroken } = await listen(relayUrl, customer.secret, body);
      assert.equal(isBroken, true, "nobody may take half a sound for a whole one");
      assert.equal(bytes.length, words * 834);
      const charge: Charge = words > 0 ? { counted: { characters: charactersOf(body) } } : "nothing";
      await checkCharge(world, customer, { rid, endCause, charge, prices: endpointPrices.voice });
    });
  }

  const eventCuts: [Fault, EndCause, number][] = [
    [{ kind: "cut", afterChunks: 2 }, UPSTREAM_CUT, 2],
    [{ kind: "error-event", afterChunks: 1 }, UPSTREAM_ERROR, 1],
    [{ kind: "error-event" }, UPSTREAM_ERROR, 0],
  ];
  for (const [fault, endCause, words] of eventCuts) {
    test(`events, ${JSON.stringify(fault)}: no speech.audio.done, what came before is charged`, async () => {
      const customer = await world.createCustomer();
      const body = bodyOf("spoken-model", { stream_format: "sse" }, { fault });
      const { rid, text } = await speak(customer.secret, body);
      const types = jsonEventsOf(text).map(({ type }) => type);
      assert.equal(types.filter((type) => type === "speech.audio.delta").length, words);
      assert.ok(!types.includes("speech.audio.done"));
      const inputTokens = estimatedInput(JSON.stringify(body));
      const audioOutputTokens = BigInt(Math.ceil(Number(charactersOf(body)) * 1.5));
      const charge: Charge = words > 0 ? { counted: { inputTokens, audioOutputTokens } } : "nothing";
      await checkCharge(world, customer, { rid, endCause, charge, prices: endpointPrices.spoken });
    });
  }

  test("speech.audio.done arrived: the answer is whole, whatever becomes of the connections behind it", async () => {
    const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const fault = { kind: "stall" as const, withheldFrames: 0 };
    const body = JSON.stringify(bodyOf("spoken-model", { stream_format: "sse" }, { fault }));
    const request = { headers: chat.headers(customer.secret), body };
    const { rid } = await readUntil(`${relayUrl}${path}`, request, "speech.audio.done");
    const charge = { provider: claimOf(await truthOf(world, rid)) };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: endpointPrices.spoken });
  });
});
