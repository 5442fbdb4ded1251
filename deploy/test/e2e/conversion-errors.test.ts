import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, errorOf, type Reply } from "./ask.ts";
import {
  callers,
  type ClientName,
  conversionCatalog,
  convertedCells,
  modelOf,
  type ProviderName,
} from "./conversion.ts";
import { checkRefusal, type Refusal } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;

const temporarilyUnavailable = "The model service is temporarily unavailable, please try again later";
const unavailable: Refusal = {
  status: 503,
  message: temporarilyUnavailable,
  code: "service_unavailable",
  retryAfter: "5",
};
const account: Refusal = { ...unavailable, retryAfter: "60" };
const unreachable: Refusal = { status: 500, message: temporarilyUnavailable, code: "server_error" };
const rateLimited: Refusal = {
  status: 429,
  message: "The model service is temporarily rate limited, please retry after 60 seconds",
  code: "rate_limit_exceeded",
  retryAfter: "60",
};

const overloaded = (client: ClientName): Refusal =>
  client === "messages" ? { status: 529, message: "Overloaded", code: "", retryAfter: "5" } : unavailable;

const invalid = (client: ClientName): Refusal => ({
  status: 502,
  message:
    client === "messages"
      ? "The model service returned an error (HTTP 502), please try again later"
      : "The model service returned an invalid response, please try again later",
  code: "server_error",
});

type Case = {
  what: string;
  behaviour: Behaviour;
  wanted: Refusal | ((client: ClientName) => Refusal);
  endCause: EndCause;
  /** Left out: whole and streamed. */
  isStream?: boolean;
  isHasty?: true;
};

const { UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT } = EndCause;

const cases: Case[] = [
  ...[401, 403].map((status) => ({
    what: `${status}`,
    behaviour: { status, error: { message: "Key sk-proj-abcdef123456 of org-12345678 is bad." } },
    wanted: account,
    endCause: UPSTREAM_ERROR,
  })),
  { what: "429", behaviour: { status: 429 }, wanted: rateLimited, endCause: UPSTREAM_ERROR },
  { what: "503", behaviour: { status: 503 }, wanted: unavailable, endCause: UPSTREAM_ERROR },
  { what: "529", behaviour: { status: 529 }, wanted: overloaded, endCause: UPSTREAM_ERROR },
  { what: "HTML with 200", behaviour: { isHtml: true }, wanted: invalid, endCause: UPSTREAM_ERROR },
  { what: "HTML with 502", behaviour: { isHtml: true, status: 502 }, wanted: invalid, endCause: UPSTREAM_ERROR },
  {
    what: "reset before the head",
    behaviour: { fault: { kind: "reset-before-headers" } },
    wanted: unreachable,
    endCause: UPSTREAM_CUT,
  },
  {
    what: "half a whole answer, closed in good order",
    behaviour: { fault: { kind: "end-early" } },
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
    isStream: false,
  },
  {
    what: "half a whole answer, cut",
    behaviour: { fault: { kind: "cut" } },
    wanted: unreachable,
    endCause: UPSTREAM_CUT,
    isStream: false,
  },
  {
    what: "silence",
    behaviour: { fault: { kind: "silence" } },
    wanted: { status: 504, message: temporarilyUnavailable, code: "server_error" },
    endCause: UPSTREAM_TIMEOUT,
    isStream: true,
    isHasty: true,
  },
];

type CallOptions = {
  client: ClientName;
  provider: ProviderName;
  behaviour: Behaviour;
  isStream: boolean;
  isHasty?: boolean;
};

function send(secret: string, { client, provider, behaviour, isStream, isHasty = false }: CallOptions): Promise<Reply> {
  const { side, historyField, question } = callers[client];
  const model = `${isHasty ? "hasty-" : ""}${modelOf(provider)}`;
  const history = [question(behaviourText(behaviour, "Say something."))];
  const body = JSON.stringify({ model, ...side.fields, [historyField]: history, stream: isStream });
  return ask(`${relayUrl}${side.path}`, { headers: side.headers(secret), body });
}

// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };
const bothWays = [false, true];

describe(
  "an upstream's failure is told in the caller's shape and the relay's words, and charged with nothing",
  atOnce,
  () => {
    for (const { client, provider } of convertedCells) {
      test(`${client} → ${provider}: ${cases.map(({ what }) => what).join(", ")}`, async () => {
        const customer = await world.createCustomer();
        const ended = new Map<string, EndCause>();
        for (const { behaviour, wanted, endCause, isStream, isHasty } of cases) {
          for (const streamed of isStream === undefined ? bothWays : [isStream]) {
            const asked = { client, provider, behaviour, isStream: streamed, ...(isHasty && { isHasty }) };
            const reply = await send(customer.secret, asked);
            checkRefusal(callers[client].side, reply, typeof wanted === "function" ? wanted(client) : wanted);
            ended.set(reply.rid, endCause);
          }
        }
        const lines = await world.untilSettled(customer.accountId, ended.size);
        assert.deepEqual(new Map(lines.map(({ rid, usage }) => [rid, usage?.endCause])), ended);
        assert.deepEqual(new Set(lines.map(({ amountNanos }) => amountNanos)), new Set([0n]));
      });
    }
  },
);

/** `error.code` of Format A where an upstream's wording passes: Gemini's is its status; Anthropic has none. */
const codes: Record<ProviderName, string> = {
  chat: "its_own_code",
  responses: "its_own_code",
  messages: "",
  gemini: "its_own_type",
};

describe("an upstream's own wording passes: 400, 404 and 500 with its words, type and code", atOnce, () => {
  for (const { client, provider } of convertedCells) {
    test(`${client} → ${provider}`, async () => {
      const customer = await world.createCustomer();
      const { side } = callers[client];
      for (const isStream of bothWays) {
        for (const [status, seen] of [
          [400, 400],
          [404, 400],
          [500, 500],
        ] as const) {
          const message = `Wrong with ${status}, says org-12345678 at ${fake.url}.`;
          const error = { message, type: "its_own_type", code: "its_own_code" };
          const reply = await send(customer.secret, { client, provider, isStream, behaviour: { status, error } });
          assert.equal(reply.status, seen);
          const told = errorOf(side, reply);
          assert.equal(told.message, `Wrong with ${status}, says [hidden] at [hidden]`);
          const typeOfB = seen === 400 ? "invalid_request_error" : "api_error";
          assert.equal(told.type, side.format === "A" ? "its_own_type" : typeOfB);
          if (side.format === "A") assert.equal(told.code, seen === 400 ? codes[provider] : "server_error");
        }
      }
      const lines = await world.untilSettled(customer.accountId, 6);
      assert.deepEqual(new Set(lines.map(({ amountNanos }) => amountNanos)), new Set([0n]));
    });
  }
});

test("nothing is fetched for who has no money for it, and nothing is held for what cannot be fetched", async () => {
  const picture = { type: "image_url", image_url: { url: "https://127.0.0.1/a.png" } };
  const body = JSON.stringify({
    model: modelOf("gemini"),
    messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, picture] }],
  });
  const askAs = async (creditNanos: bigint) => {
    const customer = await world.createCustomer({ creditNanos });
    const headers = { authorization: `Bearer ${customer.secret}`, "content-type": "application/json" };
    return { customer, reply: await ask(`${relayUrl}/v1/chat/completions`, { headers, body }) };
  };
  const poor = await askAs(1n);
  assert.equal(poor.reply.status, 403);
  assert.match(poor.reply.text, /Insufficient balance/);
  const rich = await askAs(1_000_000_000n);
  assert.equal(rich.reply.status, 400);
  assert.match(rich.reply.text, /could not be read/);
  await until("its hold is released", async () => (await world.moneyOf(rich.customer.accountId)).openHolds === 0n);
  const money = await world.moneyOf(rich.customer.accountId);
  assert.deepEqual([money.availableNanos, money.unpostedCalls], [1_000_000_000n, 0n]);
});
