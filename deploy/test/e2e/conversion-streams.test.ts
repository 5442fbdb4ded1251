import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, eventsOf, type Json, jsonEventsOf, type Reply, ridOf } from "./ask.ts";
import { type Charge, checkCharge } from "./charge.ts";
import {
  callers,
  type ClientName,
  conversionCatalog,
  convertedCells,
  modelOf,
  type ProviderName,
} from "./conversion.ts";
import { readUntil } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;

const { COMPLETE, CLIENT_GONE, UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT } = EndCause;
// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };

const usage = { inputTokens: 210, cacheReadTokens: 31, outputTokens: 97 };
const toldInput: Units = { inputTokens: 210n, cacheReadTokens: 31n };
const toldAll: Units = { ...toldInput, outputTokens: 97n };

type Fault = NonNullable<Behaviour["fault"]>;
type Cell = { client: ClientName; provider: ProviderName };

function requestOf({ client, provider }: Cell, { secret }: Customer, behaviour: Behaviour, model = modelOf(provider)) {
  const { side, historyField, question } = callers[client];
  const history = [question(behaviourText({ usage, ...behaviour }, "Say something."))];
  const body = JSON.stringify({ model, ...side.fields, [historyField]: history, stream: true });
  return { url: `${relayUrl}${side.path}`, headers: side.headers(secret), body };
}

type StreamedReply = { customer: Customer; reply: Reply; body: string };

async function stream(cell: Cell, behaviour: Behaviour, model?: string): Promise<StreamedReply> {
  const customer = await world.createCustomer();
  const { url, headers, body } = requestOf(cell, customer, behaviour, model);
  const reply = await ask(url, { headers, body });
  assert.equal(reply.status, 200, reply.text);
  return { customer, reply, body };
}

/** The text that an event of any of the formats brings. */
function textIn(event: Json): string {
  const choice = (event["choices"] as { delta: { content?: string | null } }[] | undefined)?.[0];
  const delta = choice?.delta.content ?? event["delta"];
  if (typeof delta === "string") return event["type"] === undefined || choice || isText(event) ? delta : "";
  return (delta as { text?: string } | undefined)?.text ?? "";
}

const isText = ({ type }: Json): boolean => type === "response.output_text.delta";

const textOf = (text: string): string => jsonEventsOf(text).map(textIn).join("");

/** Marks by which a client knows that an answer is whole. */
const wholeMarks = { chat: /"finish_reason":"/, responses: /"type":"response\.completed"/, messages: /message_stop/ };

/** How a stream ends whose connection was cut (API spec, Streaming that stops partway). */
function checkCutEnd(client: ClientName, text: string): void {
  assert.doesNotMatch(text, wholeMarks[client]);
  assert.doesNotMatch(text, /"type":"error"|event: error|"error":\{|response\.failed|stop_reason":"/);
  if (client === "chat") assert.equal(eventsOf(text).at(-1), "[DONE]");
}

/** How it ends when the upstream reports an error. */
function checkErrorEnd(client: ClientName, text: string, message: string): void {
  assert.doesNotMatch(text, wholeMarks[client]);
  const last = jsonEventsOf(text).at(-1) ?? {};
  if (client === "messages") assert.doesNotMatch(text, /"type":"error"|event: error|stop_reason":"/);
  else if (client === "chat") assert.equal((last["error"] as Json)["message"], message);
  else {
    assert.equal(last["type"], "response.failed");
    const { status, error } = last["response"] as { status: string; error: Json };
    assert.deepEqual([status, error["message"]], ["failed", message]);
  }
}

/** What the published table charges for content without final counts: Gemini tells its counts as it goes. */
function cutCharge(provider: ProviderName, sentBody: string, sentText: string): Charge {
  if (provider === "messages") return { providerInput: toldInput, sentText };
  if (provider !== "gemini") return { sentBody, sentText };
  return { provider: { ...toldInput, outputTokens: BigInt(sentText.split(" ").length) } };
}

const section = "API spec, Streaming that stops partway";
const cutRows = {
  chat: `${section}: Chat completions: Ends with \`data: [DONE]\` without any data whose \`finish_reason\` has a value`,
  responses: "no response.completed",
  messages: `${section}: Messages: Answer ends partway`,
};
const errorRows = {
  chat: `${section}: Chat completions: Data containing \`error\` arrives`,
  responses: "response.failed",
  messages: `${section}: Messages: No error arrives; answer ends partway`,
};

const cuts: { fault: Fault; endCause: EndCause; sentText: string }[] = [
  { fault: { kind: "cut", afterChunks: 3 }, endCause: UPSTREAM_CUT, sentText: "word1 word2 word3" },
  { fault: { kind: "half-frame", afterChunks: 2 }, endCause: UPSTREAM_CUT, sentText: "word1 word2" },
  { fault: { kind: "end-early", afterChunks: 5 }, endCause: UPSTREAM_CUT, sentText: "word1 word2 word3 word4 word5" },
  { fault: { kind: "stall", afterChunks: 1 }, endCause: UPSTREAM_TIMEOUT, sentText: "word1" },
];

describe(
  "connection cut partway: it ends as the caller's format says, and what was generated is charged",
  atOnce,
  () => {
    for (const cell of convertedCells) {
      const { client, provider } = cell;
      for (const { fault, endCause, sentText } of cuts) {
        test(`${cutRows[client]}: ${fault.kind} after ${fault.afterChunks} chunks (${client} → ${provider})`, async () => {
          const model = fault.kind === "stall" ? `hasty-${modelOf(provider)}` : modelOf(provider);
          const { customer, reply, body } = await stream(cell, { fault }, model);
          assert.equal(textOf(reply.text), sentText);
          checkCutEnd(client, reply.text);
          const charge = cutCharge(provider, body, sentText);
          await checkCharge(world, customer, { rid: reply.rid, endCause, charge });
        });
      }

      test(`cut before any content: nothing is charged (${client} → ${provider})`, async () => {
        const { customer, reply } = await stream(cell, { fault: { kind: "cut", afterChunks: 0 } });
        assert.equal(textOf(reply.text), "");
        checkCutEnd(client, reply.text);
        await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_CUT, charge: "nothing" });
      });
    }
  },
);

describe("all was said and counted, only the provider's end mark did not come", atOnce, () => {
  for (const cell of convertedCells) {
    const { client, provider } = cell;
    // The last event of these two is the end itself.
    if (provider === "responses" || provider === "gemini") continue;
    for (const kind of ["cut", "end-early"] as const) {
      test(`${kind}: the provider's counts are charged (${client} → ${provider})`, async () => {
        const { customer, reply } = await stream(cell, { text: "one two", fault: { kind, withheldFrames: 1 } });
        assert.equal(textOf(reply.text), "one two");
        // A Messages answer is whole when message_stop arrived; of chat the finish_reason is enough.
        if (provider === "messages") checkCutEnd(client, reply.text);
        else assert.match(reply.text, wholeMarks[client]);
        const endCause = kind === "cut" ? UPSTREAM_CUT : COMPLETE;
        await checkCharge(world, customer, { rid: reply.rid, endCause, charge: { provider: toldAll } });
      });
    }
  }
});

describe("upstream error partway", atOnce, () => {
  const error = { message: "It broke." };
  for (const cell of convertedCells) {
    const { client, provider } = cell;
    test(`${errorRows[client]}: what came before is charged (${client} → ${provider})`, async () => {
      const { customer, reply, body } = await stream(cell, { fault: { kind: "error-event", afterChunks: 2 }, error });
      assert.equal(textOf(reply.text), "word1 word2");
      checkErrorEnd(client, reply.text, "It broke.");
      const charge = cutCharge(provider, body, "word1 word2");
      await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge });
    });

    test(`before any content nothing is charged, and nothing of our account is told (${client} → ${provider})`, async () => {
      const message = `Key sk-abcdefgh1234 of org-12345678 at ${fake.url} is broken.`;
      const { customer, reply } = await stream(cell, { fault: { kind: "error-event" }, error: { message } });
      assert.doesNotMatch(reply.text, wholeMarks[client]);
      for (const inside of ["sk-abc", "org-123", String(fake.port)]) assert.ok(!reply.text.includes(inside));
      await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
    });
  }
});

describe(
  "client gone → upstream cancelled, charged for what came; each event goes on before the next one comes",
  atOnce,
  () => {
    for (const cell of convertedCells) {
      const { client, provider } = cell;
      test(`${client} → ${provider}`, async () => {
        const customer = await world.createCustomer();
        // The upstream says one word and no more: it is here although no second chunk ever comes.
        const { url, ...request } = requestOf(cell, customer, { fault: { kind: "stall", afterChunks: 1 } });
        const { rid, text } = await readUntil(url, request, "word1");
        assert.equal(textOf(text), "word1");
        await until(
          "the upstream was cancelled",
          () => fake.truth.find((one) => one.rid === rid)?.ended === "client-gone",
        );
        const charge = cutCharge(provider, request.body, "word1");
        await checkCharge(world, customer, { rid, endCause: CLIENT_GONE, charge });
      });
    }
  },
);

test("a caller who does not read pauses the upstream, in a converted stream too; who reads on gets all of it", async () => {
  const customer = await world.createCustomer({ creditNanos: 5_000_000_000_000n });
  const textBytes = 48 * 1024 * 1024;
  const behaviour: Behaviour = { textBytes, ignoresCap: true };
  const { url, ...request } = requestOf({ client: "messages", provider: "chat" }, customer, behaviour);
  const response = await fetch(url, { method: "POST", ...request });
  const rid = ridOf(response);
  const truthOf = () => fake.truth.find((one) => one.rid === rid);
  let before = -1;
  let stillPolls = 0;
  await until(
    "the upstream stands still",
    () => {
      const emitted = truthOf()?.tokensEmitted ?? 0;
      stillPolls = emitted === before && emitted > 0 ? stillPolls + 1 : 0;
      before = emitted;
      return stillPolls >= 25;
    },
    30_000,
  );
  const planned = truthOf()?.tokensPlanned ?? 0;
  assert.ok(before < planned, `the upstream was rid of ${before} of ${planned} tokens`);
  let bytes = 0;
  let last = "";
  for await (const piece of response.body ?? []) {
    bytes += piece.length;
    last = Buffer.from(piece).toString("latin1").slice(-300);
  }
  assert.ok(bytes > textBytes, `${bytes} bytes came of more than ${textBytes}; the last ones: ${last}`);
  assert.match(last, /message_stop/);
  const line = await world.untilBooked(customer.accountId, rid);
  assert.equal(line.usage.endCause, COMPLETE);
});
