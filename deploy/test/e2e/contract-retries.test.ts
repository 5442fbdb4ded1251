import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { answeredWith, isBetweenTries, withoutWaiting } from "./retries.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl } = world;

type CallOptions = { secret: string; behaviour?: Behaviour; model?: string };

const messagesFor = (behaviour: Behaviour) => [{ role: "user" as const, content: behaviourText(behaviour, "Hello.") }];

/** Both official clients, set up by their defaults, each making one call. */
const clients: Record<string, (asked: CallOptions) => Promise<unknown>> = {
  openai: ({ secret, behaviour = {}, model = "test-model" }) =>
    new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: secret }).chat.completions.create({
      model,
      messages: messagesFor(behaviour),
    }),
  anthropic: ({ secret, behaviour = {}, model = "test-model" }) =>
    new Anthropic({ baseURL: relayUrl, apiKey: secret }).messages.create({
      model,
      max_tokens: 10,
      messages: messagesFor(behaviour),
    }),
};

/** Makes a call that fails with `status` each time; gives how often it was tried and the waits between. */
async function triesOf(status: number, call: () => Promise<unknown>): Promise<{ tries: number; waitsMs: number[] }> {
  const { relay: opsUrl } = world.stack.addresses.opsUrls;
  const before = await answeredWith(opsUrl, status);
  const { waitsMs } = await withoutWaiting(isBetweenTries, () =>
    assert.rejects(call(), (error) => (error as { status?: number }).status === status),
  );
  return { tries: (await answeredWith(opsUrl, status)) - before, waitsMs };
}

describe("the official clients retry what they should", () => {
  const upstream: [status: number, behaviour: Behaviour, client: string][] = [
    [429, { status: 429 }, "openai"],
    [500, { status: 500 }, "openai"],
    [502, { isHtml: true }, "openai"],
    [503, { status: 503 }, "openai"],
    [504, { status: 504 }, "openai"],
    [529, { status: 529 }, "anthropic"],
  ];
  for (const [status, behaviour, client] of upstream) {
    const told = status === 503 ? "503 (except wrong model ID)" : status;
    test(`API spec, Retry guidance: 429 | Retry | ${told} is tried three times in all`, async () => {
      const { secret } = await world.createCustomer();
      const { tries } = await triesOf(status, async () => clients[client]?.({ secret, behaviour }));
      assert.equal(tries, 3);
    });
  }

  for (const [client, call] of Object.entries(clients)) {
    test(`API spec, Retry guidance: 429 | Do not retry | 400, 401, 403 and a wrong model ID, by the ${client} client`, async () => {
      const { secret } = await world.createCustomer();
      const poor = await world.createCustomer({ creditNanos: 1n });
      const final: [number, CallOptions][] = [
        [400, { secret, behaviour: { status: 400 } }],
        [401, { secret: "sk-wrong" }],
        [403, { secret: poor.secret }],
        [503, { secret, model: "no-such-model" }],
      ];
      for (const [status, asked] of final) {
        const { tries, waitsMs } = await triesOf(status, () => call(asked));
        assert.deepEqual([status, tries, waitsMs], [status, 1, []]);
      }
    });
  }

  test("API spec, Retry guidance: 429 | Do not retry | 404", async () => {
    const { secret } = await world.createCustomer();
    const lost = new OpenAI({ baseURL: `${relayUrl}/v1/v1`, apiKey: secret });
    const { tries } = await triesOf(404, () => lost.models.list());
    assert.equal(tries, 1);
  });
});

test("API spec, Retry guidance: 1. Retry with an attempt limit and growing waits. Without Retry-After the clients' own waits hold", async () => {
  for (const call of Object.values(clients)) {
    const { secret } = await world.createCustomer();
    const { tries, waitsMs } = await triesOf(500, () => call({ secret, behaviour: { status: 500 } }));
    const [first = 0, second = 0] = waitsMs;
    assert.deepEqual([tries, waitsMs.length], [3, 2]);
    assert.ok(second > first, waitsMs.join());
  }
});

describe("API spec, Retry guidance: 2. When `Retry-After` is present, wait at least that many seconds.", () => {
  const waits: [what: string, status: number, seconds: number, asked: Partial<CallOptions>, perMinute: number][] = [
    ["60 for account rate-limit 429s", 429, 60, {}, 1],
    ["60 for upstream rate-limit 429s", 429, 60, { behaviour: { status: 429 } }, 0],
    ["5 for 503s", 503, 5, { behaviour: { status: 503 } }, 0],
    [
      "60 for a 503 caused by a problem with the service's account at upstream",
      503,
      60,
      { behaviour: { status: 401 } },
      0,
    ],
  ];
  for (const [client, call] of Object.entries(clients)) {
    for (const [what, status, seconds, asked, requestsPerMinute] of waits) {
      test(`${what} (${client})`, async () => {
        const { secret } = await world.createCustomer({ requestsPerMinute });
        if (requestsPerMinute === 1) await call({ secret });
        const { waitsMs } = await triesOf(status, () => call({ secret, ...asked }));
        assert.deepEqual(waitsMs, [seconds * 1_000, seconds * 1_000]);
      });
    }
  }
});
