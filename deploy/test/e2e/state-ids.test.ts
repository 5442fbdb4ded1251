import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { until } from "#shared/testing/until.ts";
import { ask, chat, type Json, jsonEventsOf, messages, type Reply, type Side } from "./ask.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { sideOf } from "./endpoints.ts";
import { checkRefusal, checkUntouched } from "./refusal.ts";
import { sharedWorldWith } from "./shared-world.ts";
import type { Customer } from "./world.ts";

// What a provider keeps, it keeps for the operator's account: nobody else's ids may reach it.

const world = await sharedWorldWith((fakeUrl) => ({
  upstreams: { other: upstreamAt(fakeUrl) },
  models: {
    "other-model": modelOn("other"),
    "two-homes": modelOn("fake", { upstreams: [{ name: "other" }, { name: "fake", priority: 1 }] }),
    "sharing-model": modelOn("fake", { shared_state: ["response", "prompt", "file"] }),
  },
}));
const { relayUrl, fake } = world;
const responses = sideOf("/v1/responses");
const compact = sideOf("/v1/responses/compact");

const [one, two] = [await world.createCustomer(), await world.createCustomer()];

function send(side: Side, { secret }: Customer, more: Json): Promise<Reply> {
  const body = { model: "test-model", ...side.fields, ...more };
  return ask(`${relayUrl}${side.path}`, { headers: side.headers(secret), body: JSON.stringify(body) });
}

type Received = { input: Json[] } & Json;

function receivedOf({ headers }: Reply): Received {
  const rid = headers.get("x-request-id");
  const received = fake.received.find((request) => request.headers["x-request-id"] === rid);
  return JSON.parse(received?.rawBody.toString() ?? "{}") as Received;
}

type Response = { id: string; previous_response_id: string | null; output: { id: string; type: string }[] };

async function respond(by: Customer, more: Json = {}): Promise<{ reply: Reply; response: Response }> {
  const reply = await send(responses, by, { input: "Say something.", ...more });
  assert.equal(reply.status, 200, reply.text);
  const isStream = more["stream"] === true;
  const json = isStream ? jsonEventsOf(reply.text).at(-1)?.["response"] : reply.json();
  return { reply, response: json as Response };
}

const sealed = /^[a-z]+_relay\.1\.[\w-]{22}\.\w+$/;
const opened = (id: string): string => id.replace(/relay\.1\.[\w-]{22}\./, "");

async function checkRefused(side: Side, by: Customer, more: Json, path: string): Promise<void> {
  await until("no earlier call moves money", async () => {
    const { openHolds, unpostedCalls } = await world.moneyOf(by.accountId);
    return openHolds === 0n && unpostedCalls === 0n;
  });
  await checkUntouched(world, by, async () => {
    const reply = await send(side, by, more);
    const message = `field ${path} names nothing that this account got from the provider of this model`;
    checkRefusal(side, reply, { status: 400, message, code: "invalid_request" });
  });
}

test("API spec, Responses request: `previous_response_id` | no | an earlier response: of the same account, whole and streamed", async () => {
  for (const stream of [false, true]) {
    const { response: first } = await respond(one, { stream });
    assert.match(first.id, sealed);
    const { reply, response: second } = await respond(one, { stream, previous_response_id: first.id });
    assert.equal(receivedOf(reply)["previous_response_id"], opened(first.id));
    const { id } = second;
    await checkRefused(responses, two, { input: "Go on.", previous_response_id: id }, "previous_response_id");
    await checkRefused(responses, one, { input: "Go on.", previous_response_id: opened(id) }, "previous_response_id");
    await checkRefused(compact, two, { input: "Go on.", previous_response_id: id }, "previous_response_id");
    const elsewhere = { model: "other-model", input: "Go on.", previous_response_id: id };
    await checkRefused(responses, one, elsewhere, "previous_response_id");
  }
});

test("every event of a stream names the response and its items by ids that the account can send back", async () => {
  const { reply, response } = await respond(one, { stream: true });
  const ids = jsonEventsOf(reply.text).flatMap((event) => {
    const { id: ofResponse } = (event["response"] ?? {}) as { id?: string };
    const { id: ofItem } = (event["item"] ?? {}) as { id?: string };
    return [ofResponse, ofItem, event["item_id"] as string | undefined].filter((id) => id !== undefined);
  });
  assert.ok(ids.every((id) => sealed.test(id)));
  assert.deepEqual(new Set(ids), new Set([response.id, ...response.output.map(({ id }) => id)]));
});

test("items come back by reference or as they are, and reach their provider under its own ids", async () => {
  const { response } = await respond(one, { stream: true });
  const [item] = response.output;
  assert.ok(item);
  const question = { role: "user", content: "And then?" };
  const byReference = await respond(one, { input: [{ type: "item_reference", id: item.id }, question] });
  assert.deepEqual(receivedOf(byReference.reply).input[0], { type: "item_reference", id: opened(item.id) });
  const whole = await respond(one, { input: [item, question] });
  assert.deepEqual(receivedOf(whole.reply).input[0], { ...item, id: opened(item.id) });

  const reference = { input: [{ type: "item_reference", id: item.id }, question] };
  await checkRefused(responses, two, reference, "input[0].id");
  // A foreign item with its content is the caller's own words: only the id goes, and the caller hears of it.
  const taken = await respond(two, { input: [item, { ...item, id: "msg_made_up" }, question] });
  const { id: _, ...content } = item;
  assert.deepEqual(receivedOf(taken.reply).input.slice(0, 2), [content, content]);
  assert.equal(taken.reply.headers.get("x-relay-dropped"), "input.id");
});

test("a large request and its answer are bound alike", async () => {
  const { response } = await respond(one);
  const input = [{ role: "user", content: "word ".repeat(80_000) }];
  const { reply, response: second } = await respond(one, { previous_response_id: response.id, input });
  assert.equal(receivedOf(reply)["previous_response_id"], opened(response.id));
  assert.match(second.id, sealed);
  await checkRefused(responses, two, { previous_response_id: response.id, input }, "previous_response_id");
});

test("an answer's next call goes to the upstream that has it", async () => {
  const { response } = await respond(one);
  const { reply } = await respond(one, { model: "two-homes", previous_response_id: response.id });
  assert.equal(receivedOf(reply)["previous_response_id"], opened(response.id));
  const { response: third } = await respond(one, { model: "two-homes" });
  await checkRefused(responses, one, { input: "Go on.", previous_response_id: third.id }, "previous_response_id");
});

const file = (id: string): Json => ({ role: "user", content: [{ type: "input_file", file_id: id }] });
const refused: [Side, Json, string][] = [
  [responses, { conversation: "conv_1" }, "conversation"],
  [responses, { conversation: { id: "conv_1" } }, "conversation.id"],
  [responses, { prompt: { id: "pmpt_1" } }, "prompt.id"],
  [responses, { input: [file("file-1")] }, "input[0].content[0].file_id"],
  [responses, { input: [{ type: "reasoning", id: "rs_1", summary: [] }, { id: "rs_1" }] }, "input[1].id"],
  [
    chat,
    { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }] },
    "messages[0].content[0].file.file_id",
  ],
  [chat, { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }, "messages[0].audio.id"],
  [messages, { container: "container_1", messages: [{ role: "user", content: "hi" }] }, "container"],
  [
    messages,
    { messages: [{ role: "user", content: [{ type: "document", source: { type: "file", file_id: "file_1" } }] }] },
    "messages[0].content[0].source.file_id",
  ],
];

describe("ids that the relay gives to nobody are refused by name, before money", () => {
  for (const [side, more, path] of refused) {
    test(`${side.path}: ${path}`, () =>
      checkRefused(side, one, { ...(side === responses && { input: "hi" }), ...more }, path));
  }
});

test("what the operator shares passes as it came, and so do answers", async () => {
  const asked = {
    model: "sharing-model",
    previous_response_id: "resp_1",
    prompt: { id: "pmpt_1" },
    input: [file("f")],
  };
  const { reply, response } = await respond(two, asked);
  assert.deepEqual(receivedOf(reply), asked);
  assert.doesNotMatch(response.id, /relay/);
  await checkRefused(responses, two, { ...asked, conversation: "conv_1" }, "conversation");
});

test("a loop of the official client over earlier responses works", async () => {
  const client = new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: one.secret, maxRetries: 0 });
  let last: string | undefined;
  for (const stream of [false, true, false]) {
    const asked = { model: "test-model", input: "Go on.", ...(last !== undefined && { previous_response_id: last }) };
    const response = stream
      ? await client.responses.stream(asked).finalResponse()
      : await client.responses.create(asked);
    assert.match(response.id, sealed);
    last = response.id;
  }
});
