import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import { type FakeUpstream, startFakeUpstream } from "#fake-provider/upstream.ts";
import { until } from "#shared/testing/until.ts";
import { ask, bodyOf, chat, makeCall, type Reply, ridOf, type Side, sides } from "./ask.ts";
import { catalogText, modelOn, upstreamAt } from "./catalog.ts";
import { checkCharge } from "./charge.ts";
import { checkRefusal, type Refusal, rows } from "./refusal.ts";
import { type Customer, startWorld } from "./world.ts";

// What an upstream does, by the name under which it knows the model.
const behaviours: Record<string, Behaviour> = {
  "says-401": { status: 401, error: { message: "Organisation org-12345678 owes money." } },
  "says-402": { status: 402 },
  "says-403": { status: 403 },
  "says-429": { status: 429, retryAfterSeconds: 30 },
  "says-500": { status: 500 },
  "says-502": { status: 502 },
  "says-503": { status: 503 },
  "says-529": { status: 529 },
  "says-400": { status: 400, error: { message: "Too long." } },
  "says-404": { status: 404 },
  "says-408": { status: 408 },
  "says-413": { status: 413 },
  "says-422": { status: 422 },
  "says-504": { status: 504 },
  resets: { fault: { kind: "reset-before-headers" } },
  silent: { fault: { kind: "silence" } },
  stalls: { text: "two words", chunks: 2, fault: { kind: "stall", afterChunks: 2 } },
};
const usage = { inputTokens: 11, outputTokens: 7 };
const charged = { provider: { inputTokens: 11n, outputTokens: 7n } };
const behaviourOf = ({ model }: { model: string }): Behaviour => behaviours[model] ?? { text: "served", usage };

const second = await startFakeUpstream({ behaviour: behaviourOf });
after(() => second[Symbol.asyncDispose]());

type ModelEntry = { name: string; model?: string; settings?: Parameters<typeof upstreamAt>[1]; url?: string };

const other: ModelEntry = { name: "b", model: "serves" };

/**
 * Models by name, each on upstreams of its own, so that no test leaves another's alone: the first in the first fake,
 * the second in the second one.
 */
const models: Record<string, ModelEntry[]> = {
  ...Object.fromEntries(Object.keys(behaviours).map((model) => [model, [{ name: "a", model }, other]])),
  refused: [{ name: "a", url: "http://127.0.0.1:1", settings: { open_after_failures: 0 } }, other],
  "only-rate": [{ name: "a", model: "says-429" }],
  "only-account": [{ name: "a", model: "says-401" }],
  "only-failing": [{ name: "a", model: "says-500" }],
  "both-failing": [
    { name: "a", model: "says-503" },
    { name: "b", model: "says-429" },
  ],
  narrow: [{ name: "a", settings: { max_concurrent: 1 } }],
  "narrow-pair": [{ name: "a", settings: { max_concurrent: 1 } }, other],
  late: [{ name: "a", model: "stalls", settings: { total_timeout_ms: 700 } }],
  organised: [
    { name: "a", settings: { headers: { "OpenAI-Organization": { env: "DEMO_API_KEY" }, "X-Team": "e2e" } } },
  ],
  changing: [{ name: "a", model: "says-429" }],
};

function catalogAt(firstUrl: string, timeoutMs = 60_000): string {
  const upstreams: Record<string, object> = {};
  const entries = Object.entries(models).map(([model, places]) => {
    const routes = places.map(({ name, url, settings, model: asked = model }) => {
      const baseUrl = url ?? (name === "a" ? firstUrl : second.url);
      // Only the one that never answers is waited for in vain; on a loaded machine an answer may take seconds.
      const waitMs = model === "silent" ? 1_000 : timeoutMs;
      const common = { open_after_failures: 3, cool_down: true, first_byte_timeout_ms: waitMs };
      upstreams[`${name}-${model}`] = upstreamAt(baseUrl, { ...common, connect_timeout_ms: timeoutMs, ...settings });
      return { name: `${name}-${model}`, model: asked };
    });
    return [model, modelOn("", { upstreams: routes })];
  });
  return catalogText({ upstreams, models: Object.fromEntries(entries) });
}

const world = await startWorld({ catalog: (fakeUrl) => catalogAt(fakeUrl), fake: { behaviour: behaviourOf } });
after(() => world[Symbol.asyncDispose]());
const { relayUrl, fake: first } = world;

/** Calls of a request id that an upstream received. */
const askedFor = ({ received }: FakeUpstream, rid: string): number =>
  received.filter(({ headers }) => headers["x-request-id"] === rid).length;

/** A body without a behaviour: what the upstreams do is a matter of the model. */
function call(customer: Customer, model: string, side: Side = chat, isStream = false): Promise<Reply> {
  const messages = [{ role: "user", content: "Say something." }];
  return makeCall(relayUrl, customer.secret, { side, model, isStream, more: { messages } });
}

const unavailable = {
  status: 503,
  message: "The model service is temporarily unavailable, please try again later",
  code: "service_unavailable",
  retryAfter: "5",
};
const accountProblem = { ...unavailable, retryAfter: "60" };
const rateLimited = {
  status: 429,
  message: "The model service is temporarily rate limited, please retry after 60 seconds",
  code: "rate_limit_exceeded",
  retryAfter: "60",
};

/** Checks that a call was refused without an upstream, that its money is free again and that it left no line. */
async function checkRefusedAtOnce(model: string, wanted: Refusal): Promise<void> {
  for (const side of sides) {
    const customer = await world.createCustomer();
    const before = await world.moneyOf(customer.accountId);
    const reply = await call(customer, model, side);
    checkRefusal(side, reply, wanted);
    assert.deepEqual([askedFor(first, reply.rid), askedFor(second, reply.rid)], [0, 0]);
    await until("the hold is released", async () => (await world.holdsOf(customer.accountId)).openHolds === 0n);
    assert.deepEqual(await world.moneyOf(customer.accountId), before);
    assert.deepEqual(await world.ledgerOf(customer.accountId), []);
  }
}

const atOnce = { concurrency: 4 };

describe(
  "failover before the first byte: the caller is served, and charged once for the upstream that served",
  atOnce,
  () => {
    for (const model of [401, 402, 403, 429, 500, 502, 503, 529].map((status) => `says-${status}`).concat("refused")) {
      for (const side of sides) {
        for (const isStream of [false, true]) {
          test(`the first upstream ${model} (${side.path}, ${isStream ? "streamed" : "whole"})`, async () => {
            const customer = await world.createCustomer();
            const reply = await call(customer, model, side, isStream);
            assert.equal(reply.status, 200, reply.text);
            assert.match(reply.text, /served/);
            assert.equal(askedFor(second, reply.rid), 1);
            const outcome = { rid: reply.rid, endCause: EndCause.COMPLETE, charge: charged };
            const line = await checkCharge(world, customer, outcome);
            assert.deepEqual([line.usage.upstream, line.usage.modelServed], [`b-${model}`, "serves"]);
          });
        }
      }
    }

    test("the line in the log names the call and the upstream that failed", async () => {
      const customer = await world.createCustomer();
      const { rid } = await call(customer, "refused");
      await until("the log tells of it", () =>
        world.linesOf("relay").some((line) => line.includes(rid) && line.includes('"upstream":"a-refused"')),
      );
      await world.untilBooked(customer.accountId, rid);
    });
  },
);

describe("no failover where the first upstream may have done the work, or the request is at fault", atOnce, () => {
  const { UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT } = EndCause;
  const cases: [string, number, EndCause][] = [
    ["resets", 500, UPSTREAM_CUT],
    ["silent", 504, UPSTREAM_TIMEOUT],
    ["says-408", 504, UPSTREAM_TIMEOUT],
    ["says-504", 504, UPSTREAM_TIMEOUT],
    ["says-400", 400, UPSTREAM_ERROR],
    ["says-404", 400, UPSTREAM_ERROR],
    ["says-413", 400, UPSTREAM_ERROR],
    ["says-422", 400, UPSTREAM_ERROR],
  ];
  for (const [model, status, endCause] of cases) {
    for (const isStream of [false, true]) {
      test(`the first upstream ${model} (${isStream ? "streamed" : "whole"})`, async () => {
        const customer = await world.createCustomer();
        const reply = await call(customer, model, chat, isStream);
        assert.equal(reply.status, status, reply.text);
        assert.deepEqual([askedFor(first, reply.rid), askedFor(second, reply.rid)], [1, 0]);
        const line = await checkCharge(world, customer, { rid: reply.rid, endCause, charge: "nothing" });
        assert.equal(line.usage.upstream, `a-${model}`);
      });
    }
  }
});

test("all upstreams fail: the last answer decides, each was asked once, one line of 0", async () => {
  const customer = await world.createCustomer();
  const reply = await call(customer, "both-failing");
  checkRefusal(chat, reply, rateLimited);
  assert.deepEqual([askedFor(first, reply.rid), askedFor(second, reply.rid)], [1, 1]);
  await checkCharge(world, customer, { rid: reply.rid, endCause: EndCause.UPSTREAM_ERROR, charge: "nothing" });
});

describe("upstreams that are left alone are not asked; what is refused for it is free", () => {
  test("API spec, Limits: Upstream rate limit | 429 with `Retry-After: 60`, at once while the upstream cools down", async () => {
    const customer = await world.createCustomer();
    const reply = await call(customer, "only-rate");
    checkRefusal(chat, reply, rateLimited);
    await checkRefusedAtOnce("only-rate", rateLimited);
    await world.untilBooked(customer.accountId, reply.rid);
  });

  test("problem with the service's account at upstream: 503 with Retry-After 60, at once for a minute", async () => {
    const customer = await world.createCustomer();
    const reply = await call(customer, "only-account");
    checkRefusal(chat, reply, accountProblem);
    await checkRefusedAtOnce("only-account", accountProblem);
    await world.untilBooked(customer.accountId, reply.rid);
  });

  test("Upstream temporarily unavailable: 503 with Retry-After 5, at once while its circuit is open; then a probe", async () => {
    const customer = await world.createCustomer();
    for (let count = 0; count < 3; count += 1) assert.equal((await call(customer, "only-failing")).status, 500);
    await checkRefusedAtOnce("only-failing", unavailable);
    const probe = await until("a probe goes", async () => {
      const reply = await call(customer, "only-failing");
      return reply.status === 500 ? reply : undefined;
    });
    assert.equal(askedFor(first, probe?.rid ?? ""), 1);
    await world.untilSettled(customer.accountId, 4);
  });

  test("a cool-down ends when the catalog changes the upstream, and with no other change of the catalog", async () => {
    const customer = await world.createCustomer();
    const { catalogFile } = world.stack;
    checkRefusal(chat, await call(customer, "changing"), rateLimited);
    const reloads = () => world.linesOf("relay").filter((line) => line.includes("catalog reloaded")).length;
    const replace = async (text: string): Promise<void> => {
      const before = reloads();
      await writeFile(catalogFile, text);
      await until("the catalog is reloaded", () => reloads() > before);
    };
    await replace(`${catalogAt(first.url)}\n`);
    const cold = await call(customer, "changing");
    assert.deepEqual([cold.status, askedFor(first, cold.rid)], [429, 0]);
    await replace(catalogAt(first.url, 59_000));
    const fresh = await call(customer, "changing");
    assert.deepEqual([fresh.status, askedFor(first, fresh.rid)], [429, 1]);
    await world.untilSettled(customer.accountId, 2);
  });
});

describe("per-upstream concurrency cap", () => {
  /** Holds the only place of a model until `leave`, which resolves when the relay has cancelled the upstream. */
  async function occupy(model: string): Promise<{ leave: () => Promise<void> }> {
    const customer = await world.createCustomer();
    const leaving = new AbortController();
    const response = await fetch(`${relayUrl}${chat.path}`, {
      method: "POST",
      headers: chat.headers(customer.secret),
      body: bodyOf({
        side: chat,
        model,
        isStream: true,
        behaviour: { chunks: 2, fault: { kind: "stall", afterChunks: 1 } },
      }),
      signal: leaving.signal,
    });
    const rid = ridOf(response);
    assert.equal(response.status, 200);
    return {
      leave: async () => {
        // Named here so that it lives until here: a response that is collected as garbage hangs up by itself.
        assert.equal(response.bodyUsed, false);
        leaving.abort();
        await until("the upstream was cancelled", () =>
          first.truth.some((truth) => truth.rid === rid && truth.ended === "client-gone"),
        );
        await world.untilBooked(customer.accountId, rid);
      },
    };
  }

  test("Service stopped or busy: no place and no other upstream is 503 at once, and the place is free afterwards", async () => {
    const { leave } = await occupy("narrow");
    await checkRefusedAtOnce("narrow", rows.serviceUnavailable);
    await leave();
    const customer = await world.createCustomer();
    const reply = await until("the place is free", async () => {
      const free = await call(customer, "narrow");
      return free.status === 200 ? free : undefined;
    });
    await checkCharge(world, customer, { rid: reply?.rid ?? "", endCause: EndCause.COMPLETE, charge: charged });
  });

  test("a call that finds no place goes to the next upstream", async () => {
    const { leave } = await occupy("narrow-pair");
    const customer = await world.createCustomer();
    const reply = await call(customer, "narrow-pair");
    assert.equal(reply.status, 200, reply.text);
    const outcome = { rid: reply.rid, endCause: EndCause.COMPLETE, charge: charged };
    assert.equal((await checkCharge(world, customer, outcome)).usage.upstream, "b-narrow-pair");
    await leave();
  });
});

test("a stream is cut as an upstream timeout when its total time is over; what was served is charged", async () => {
  const customer = await world.createCustomer();
  const more = { messages: [{ role: "user", content: "Say something." }] };
  const body = bodyOf({ side: chat, model: "late", isStream: true, more });
  const reply = await ask(`${relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
  assert.equal(reply.status, 200);
  assert.match(reply.text, /data: \[DONE\]\n\n$/);
  const line = await world.untilBooked(customer.accountId, reply.rid);
  assert.equal(line.usage.endCause, EndCause.UPSTREAM_TIMEOUT);
  assert.ok(line.amountNanos < 0n);
});

test("the operator's own headers reach the upstream with every call", async () => {
  const customer = await world.createCustomer();
  const { rid } = await call(customer, "organised");
  const request = first.received.find(({ headers }) => headers["x-request-id"] === rid);
  assert.deepEqual([request?.headers["openai-organization"], request?.headers["x-team"]], ["demo", "e2e"]);
  await world.untilBooked(customer.accountId, rid);
});

test("the metrics tell what became of the upstreams, by name", async () => {
  const customer = await world.createCustomer();
  const { rid } = await call(customer, "refused");
  const text = await (await fetch(`${world.stack.addresses.opsUrls.relay}/metrics`)).text();
  for (const sample of [
    /^relay_upstream_attempts_total\{.*upstream="a-refused",outcome="not_sent".*\} [1-9]/m,
    /^relay_upstream_attempts_total\{.*upstream="b-refused",outcome="answered".*\} [1-9]/m,
    /^relay_upstream_circuit\{.*upstream="b-refused".*\} 0$/m,
    /^relay_upstream_live_calls\{.*upstream="b-refused".*\} 0$/m,
  ]) {
    assert.match(text, sample);
  }
  await world.untilBooked(customer.accountId, rid);
});
