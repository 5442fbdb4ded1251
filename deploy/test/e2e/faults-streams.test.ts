import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, bodyOf, chat, eventsOf, jsonEventsOf, messages, type Reply, ridOf, type Side, sides } from "./ask.ts";
import { type Charge, checkCharge } from "./charge.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;

const { COMPLETE, CLIENT_GONE, HOLD_EXHAUSTED, UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT } = EndCause;
const claim = { inputTokens: 210, cacheReadTokens: 31, outputTokens: 97 };
const claimed: Units = { inputTokens: 210n, cacheReadTokens: 31n, outputTokens: 97n };
// Chat tells nothing of its use before the end, messages tells its input first.
const told: Units = { inputTokens: 210n, cacheReadTokens: 31n };

/** All text that a stream has delivered. */
function textOf(stream: string): string {
  return jsonEventsOf(stream)
    .map((event) => {
      const choice = (event["choices"] as { delta: { content?: string | null } }[] | undefined)?.[0];
      return choice?.delta.content ?? (event["delta"] as { text?: string } | undefined)?.text ?? "";
    })
    .join("");
}

/** Whether any data of a chat stream has a finish_reason with a value. */
const hasFinish = (stream: string): boolean => /"finish_reason":"/.test(stream);

/** What the published table charges for a stream that was cut after content without final counts. */
function cutCharge(side: Side, sentBody: string, sentText: string): Charge {
  return side.format === "A" ? { sentBody, sentText } : { providerInput: told, sentText };
}

/** Checks how a stream that stopped partway ended for its caller (API spec, Streaming that stops partway). */
function checkCutEnd(side: Side, stream: string): void {
  if (side.format === "A") {
    assert.equal(eventsOf(stream).at(-1), "[DONE]", "ends with data: [DONE]");
    assert.equal(hasFinish(stream), false, "without any data whose finish_reason has a value");
    assert.ok(!stream.includes(`"error"`));
    return;
  }
  assert.ok(!stream.includes("message_stop") && !stream.includes("message_delta"), "the answer ends partway");
  assert.ok(!/event: ?error|"type":"error"/.test(stream), "no error arrives");
}

/** What the API spec states of a stream of a side whose connection is cut partway. */
function partway({ format }: Side): string {
  const inA = "Chat completions: Ends with `data: [DONE]` without any data whose `finish_reason` has a value";
  const charged = "When the whole answer did not arrive: the price of what was generated before the cut is charged";
  const [ends, section] = [
    format === "A" ? inA : "Messages: Answer ends partway",
    "API spec, Streaming that stops partway",
  ];
  return `${section}: ${ends}; ${section}: ${charged}`;
}

type Fault = NonNullable<Behaviour["fault"]>;

const cuts: { how: string; model?: string; fault: Fault; endCause: EndCause; sentText: string }[] = [
  {
    how: "the upstream stalls: the idle timeout ends it",
    model: "hasty-model",
    fault: { kind: "stall", afterChunks: 3 },
    endCause: UPSTREAM_TIMEOUT,
    sentText: "word1 word2 word3",
  },
  {
    how: "cut after 3 chunks",
    fault: { kind: "cut", afterChunks: 3 },
    endCause: UPSTREAM_CUT,
    sentText: "word1 word2 word3",
  },
  { how: "reset after 1 chunk", fault: { kind: "reset", afterChunks: 1 }, endCause: UPSTREAM_CUT, sentText: "word1" },
  {
    how: "half a frame, then cut: the half does not arrive",
    fault: { kind: "half-frame", afterChunks: 2 },
    endCause: UPSTREAM_CUT,
    sentText: "word1 word2",
  },
  {
    how: "the upstream ends in good order before its finish",
    fault: { kind: "end-early", afterChunks: 5 },
    endCause: UPSTREAM_CUT,
    sentText: "word1 word2 word3 word4 word5",
  },
];

// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };

describe("connection cut partway: the price of what was generated before the cut is charged", atOnce, () => {
  for (const { how, model, fault, endCause, sentText } of cuts) {
    for (const side of sides) {
      test(`${partway(side)}: ${how} (${side.path})`, async () => {
        const customer = await world.createCustomer();
        const body = bodyOf({ side, isStream: true, behaviour: { fault, usage: claim }, ...(model && { model }) });
        const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
        assert.equal(reply.status, 200);
        assert.equal(textOf(reply.text), sentText);
        checkCutEnd(side, reply.text);
        const charge = cutCharge(side, body, sentText);
        const line = await checkCharge(world, customer, { rid: reply.rid, endCause, charge });
        assert.equal(line.usage.httpStatus, 200);
      });
    }
  }

  for (const side of sides) {
    for (const fault of [
      { kind: "cut", afterFrames: 0 },
      { kind: "cut", afterChunks: 0 },
      { kind: "half-frame", afterChunks: 0 },
      { kind: "end-early", afterFrames: 0 },
    ] satisfies Fault[]) {
      const where = "afterFrames" in fault ? "before any event" : "before any content";
      test(`${fault.kind} ${where}: nothing is charged (${side.path})`, async () => {
        const customer = await world.createCustomer();
        const body = bodyOf({ side, isStream: true, behaviour: { fault, usage: claim } });
        const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
        assert.equal(textOf(reply.text), "");
        checkCutEnd(side, reply.text);
        await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_CUT, charge: "nothing" });
      });
    }
  }
});

describe("the provider's final counts were seen before the cut: the provider's counts", () => {
  const streamOptions = { stream_options: { include_usage: true } };
  for (const kind of ["cut", "end-early"] as const) {
    for (const side of sides) {
      test(`${kind} between the counts and the end mark (${side.path})`, async () => {
        const customer = await world.createCustomer();
        const behaviour = { fault: { kind, withheldFrames: 1 }, usage: claim };
        const more = side.format === "A" ? streamOptions : {};
        const body = bodyOf({ side, isStream: true, behaviour, more });
        const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
        // All was said and the finish has arrived, so an end in good order is a whole answer.
        const endCause = kind === "cut" ? UPSTREAM_CUT : COMPLETE;
        assert.equal(hasFinish(reply.text) || reply.text.includes(`"stop_reason":"end_turn"`), true);
        await checkCharge(world, customer, { rid: reply.rid, endCause, charge: { provider: claimed } });
      });
    }
  }
});

describe("upstream error partway", () => {
  test("API spec, Streaming that stops partway: Chat completions: Data containing `error` arrives, what came before is charged; API spec, Streaming that stops partway: HTTP 200 is already sent, so errors arrive inside the stream", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = {
      fault: { kind: "error-event", afterChunks: 2 },
      error: { message: "It broke." },
      usage: claim,
    };
    const body = bodyOf({ side: chat, isStream: true, behaviour });
    const reply = await ask(`${relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
    assert.equal(reply.status, 200);
    const errors = jsonEventsOf(reply.text).filter((event) => "error" in event);
    assert.equal(errors.length, 1);
    assert.equal(hasFinish(reply.text), false);
    const charge = { sentBody: body, sentText: textOf(reply.text) };
    assert.equal(charge.sentText, "word1 word2");
    await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge });
  });

  test("API spec, Streaming that stops partway: Messages: No error arrives; answer ends partway, what came before is charged", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = { fault: { kind: "error-event", afterChunks: 2 }, usage: claim };
    const body = bodyOf({ side: messages, isStream: true, behaviour });
    const reply = await ask(`${relayUrl}${messages.path}`, { headers: messages.headers(customer.secret), body });
    checkCutEnd(messages, reply.text);
    const charge = cutCharge(messages, body, "word1 word2");
    await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge });
  });

  for (const side of sides) {
    test(`an error before any content is charged with nothing (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const body = bodyOf({ side, isStream: true, behaviour: { fault: { kind: "error-event" }, usage: claim } });
      const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
      await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
    });
  }
});

describe("client gone → upstream cancelled, charged for what came", () => {
  for (const side of sides) {
    test(`mid-stream (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const leaving = new AbortController();
      const behaviour: Behaviour = { fault: { kind: "stall", afterChunks: 4 }, usage: claim };
      const body = bodyOf({ side, isStream: true, behaviour });
      const { headers, path } = { headers: side.headers(customer.secret), path: side.path };
      const response = await fetch(`${relayUrl}${path}`, { method: "POST", headers, body, signal: leaving.signal });
      const rid = ridOf(response);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      let stream = "";
      while (!stream.includes("word4")) stream += Buffer.from((await reader.read()).value ?? []).toString();
      leaving.abort();
      await until(
        "the upstream was cancelled",
        () => fake.truth.find((truth) => truth.rid === rid)?.ended === "client-gone",
      );
      const charge = cutCharge(side, body, "word1 word2 word3 word4");
      await checkCharge(world, customer, { rid, endCause: CLIENT_GONE, charge });
    });
  }
});

describe("a stream that outgrows its hold asks for more; refused, it is cut and what was served is charged", () => {
  const words = Array.from({ length: 3_000 }, (_, index) => `w${index}`).join(" ");

  for (const side of sides) {
    test(`no money left (${side.path})`, async () => {
      // About 130 tokens of output are paid for; the upstream would say so many more that it cannot end before the cut.
      const creditNanos = 2_500_000n;
      const customer = await world.createCustomer({ creditNanos });
      const behaviour: Behaviour = { ignoresCap: true, gapMs: 1, usage: { inputTokens: 50 }, outputTokens: 30_000 };
      const body = bodyOf({ side, isStream: true, behaviour, more: { max_tokens: 20 } });
      const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
      const sentText = textOf(reply.text);
      checkCutEnd(side, reply.text);
      const charge =
        side.format === "A" ? { sentBody: body, sentText } : { providerInput: { inputTokens: 50n }, sentText };
      const line = await checkCharge(world, customer, { rid: reply.rid, endCause: HOLD_EXHAUSTED, charge });
      assert.ok(-line.amountNanos > creditNanos / 2n, "it was given what there was");
      assert.ok(-line.amountNanos < 2n * creditNanos, `${line.amountNanos} is far more than the account had`);
      await until(
        "the upstream was cancelled",
        () => fake.truth.find(({ rid }) => rid === reply.rid)?.ended === "client-gone",
      );
    });

    test(`with money, the hold grows and the stream is whole (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const behaviour: Behaviour = { ignoresCap: true, text: words, usage: { inputTokens: 50, outputTokens: 3_000 } };
      const body = bodyOf({ side, isStream: true, behaviour, more: { max_tokens: 20 } });
      const reply = await ask(`${relayUrl}${side.path}`, { headers: side.headers(customer.secret), body });
      assert.equal(textOf(reply.text), words);
      const charge = { provider: { inputTokens: 50n, outputTokens: 3_000n } };
      await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge });
    });
  }
});

describe("an upstream that ignores include_usage", () => {
  const streamed = async (
    more: Record<string, unknown>,
  ): Promise<{ reply: Reply; body: string; accountId: string }> => {
    const customer = await world.createCustomer();
    const body = bodyOf({ side: chat, isStream: true, behaviour: { text: "one two three", usage: "omit" }, more });
    const reply = await ask(`${relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
    const charge = { sentBody: body, sentText: "one two three" };
    await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge });
    return { reply, body, accountId: customer.accountId };
  };

  test("the answer is whole and its counts are estimated", async () => {
    for (const more of [{}, { stream_options: { include_usage: true } }]) {
      const { reply } = await streamed(more);
      assert.equal(textOf(reply.text), "one two three");
      assert.equal(eventsOf(reply.text).at(-1), "[DONE]");
      assert.equal(hasFinish(reply.text), true);
    }
  });
});
