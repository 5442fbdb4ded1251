import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import OpenAI from "openai";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { unitsOf } from "./charge.ts";
import { callers, clientNames, type ClientName } from "./conversion.ts";
import { type FixedAnswer, startFixedUpstream } from "./fixed-upstream.ts";
import { framings, oddAnswers, plainAnswers, type OddAnswer } from "./odd-answers.ts";
import { sharedWorldWith } from "./shared-world.ts";

const framed = Object.entries(plainAnswers).flatMap(([name, answer]) =>
  Object.entries(framings).map(([framing, frame]) => ({ model: `odd-${name}-${framing}`, answer, frame })),
);
const odd = Object.entries(oddAnswers).map(([name, answer]) => {
  const model = `odd-${name.replaceAll(" ", "-")}`;
  return { name, model, answer, frame: framings["plain"] };
});

const swapped = Object.entries(plainAnswers).map(([name, answer]) => ({
  model: `odd-${name}-swapped`,
  answer,
  frame: framings["plain"],
}));

const misnamed = Object.entries(plainAnswers).flatMap(([name, answer]) =>
  ["text/plain", "application/json"].map((type) => {
    const model = `odd-${name}-${type.replace("/", "-")}`;
    return { model, answer, frame: framings["plain"], type };
  }),
);

const bare = { object: "error", message: "No such voice", type: "invalid_request_error", param: null, code: "1500" };
const refused: FixedAnswer = { whole: Buffer.from(JSON.stringify(bare)), stream: Buffer.alloc(0), status: 400 };
const refusing = "odd-error";

type Served = { model: string; answer: OddAnswer; frame: ((events: object[]) => string) | undefined };
const fixedOf = ({ model, answer: { whole, events }, frame }: Served) =>
  [model, { whole: Buffer.from(JSON.stringify(whole)), stream: Buffer.from(frame?.(events) ?? "") }] as const;
const fixed = [...framed, ...odd].map(fixedOf);
const otherwise = swapped.map(fixedOf).map(([model, answer]) => [model, { ...answer, isSwapped: true }] as const);
const typed = misnamed.map(({ type, ...served }) => {
  const [model, answer] = fixedOf(served);
  return [model, { ...answer, streamType: type }] as const;
});
const upstream = await startFixedUpstream({
  ...Object.fromEntries<FixedAnswer>([...fixed, ...otherwise, ...typed]),
  [refusing]: refused,
});
after(() => upstream.close());

const routes = [
  ...[...framed, ...odd, ...swapped, ...misnamed].map(({ model, answer: { dialect } }) => ({ model, dialect })),
  { model: refusing, dialect: "openai-chat" as const },
];
const world = await sharedWorldWith(() => ({
  upstreams: Object.fromEntries(
    routes.map(({ model, dialect }) => [model, upstreamAt(`${upstream.url}/${model}`, { dialects: [dialect] })]),
  ),
  models: Object.fromEntries(routes.map(({ model }) => [model, modelOn(model)])),
}));

async function check(client: ClientName, model: string, answer: OddAnswer, isStream: boolean): Promise<void> {
  const customer = await world.createCustomer();
  const caller = callers[client];
  const asking = { model, history: [caller.question("Say something.")], isStream };
  const heard = await caller.ask(world.relayUrl, customer.secret, asking);
  assert.equal(heard.text, answer.text);
  assert.equal(heard.finish, answer.finish[client]);
  const line = await world.untilBooked(customer.accountId, heard.rid);
  assert.equal(line.usage.endCause, EndCause.COMPLETE);
  assert.deepEqual(unitsOf(line), answer.charged);
  const isFree = Object.keys(answer.charged).length === 0;
  assert.equal(line.usage.usageSource, isFree ? UsageSource.NONE : UsageSource.PROVIDER);
  assert.equal(line.amountNanos === 0n, isFree);
}

describe("a stream says the same however its server puts it into lines", () => {
  for (const { model, answer } of framed) {
    for (const client of clientNames) test(`${client}: ${model}`, () => check(client, model, answer, true));
  }
});

describe("an answer is what it is in every format, and charged as its provider bills it", () => {
  for (const { name, model, answer } of odd) {
    for (const client of clientNames) {
      test(`${name}: ${client}, whole`, () => check(client, model, answer, false));
      test(`${name}: ${client}, streamed`, () => check(client, model, answer, true));
    }
  }
  for (const [name, answer] of Object.entries(plainAnswers)) {
    const model = `odd-${name}-plain`;
    for (const client of clientNames) test(`${name}: ${client}, whole`, () => check(client, model, answer, false));
  }
});

describe("who is answered whole where he asked for a stream, or by a stream, gets what he asked for and pays it", () => {
  for (const { model, answer } of swapped) {
    for (const client of clientNames) {
      test(`${client}: ${model}, whole`, () => check(client, model, answer, false));
      test(`${client}: ${model}, streamed`, () => check(client, model, answer, true));
    }
  }
});

describe("a stream whose head says that it is something else is a stream, and is charged", () => {
  for (const { model, answer } of misnamed) {
    for (const client of clientNames) test(`${client}: ${model}`, () => check(client, model, answer, true));
  }
});

test("an error that is an object of its own keeps its status and words", async () => {
  const { secret } = await world.createCustomer();
  const openai = new OpenAI({ baseURL: `${world.relayUrl}/v1`, apiKey: secret, maxRetries: 0 });
  for (const stream of [false, true]) {
    const asked = openai.chat.completions.create({
      model: refusing,
      messages: [{ role: "user", content: "x" }],
      stream,
    });
    await assert.rejects(asked, (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, /No such voice/);
      return true;
    });
  }
});
