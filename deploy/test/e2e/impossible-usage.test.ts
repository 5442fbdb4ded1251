import assert from "node:assert/strict";
import { after, test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { runCommand } from "../../tools/admin/program.ts";
import { chat, messages, ridOf, type Side } from "./ask.ts";
import { catalogText, modelOn, prices, upstreamAt } from "./catalog.ts";
import { costOf, unitsOf } from "./charge.ts";
import { startFixedUpstream, type FixedAnswer } from "./fixed-upstream.ts";
import { startWorld } from "./world.ts";

// An upstream that is broken, or lies: counts that no call can have used, and counts that are none.

const absurd = 9_000_000_000_000_000;
const responses: Side = { ...chat, path: "/v1/responses" };

const events = (...data: object[]): string => data.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
const typed = (...data: { type: string; [field: string]: unknown }[]): string =>
  data.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join("");
// A number that JSON can write and JavaScript cannot hold.
const written = (text: string): Buffer => Buffer.from(text.replaceAll('"1e999"', "1e999"));

function chatAnswer(usage: object): FixedAnswer {
  const common = { id: "c", created: 1_767_225_600, model: "m" };
  const choice = { index: 0, message: { role: "assistant", content: "Hello there." }, finish_reason: "stop" };
  const chunk = { ...common, object: "chat.completion.chunk" };
  const delta = (content: object, finish: string | null) => ({
    ...chunk,
    choices: [{ index: 0, delta: content, finish_reason: finish }],
  });
  return {
    whole: written(JSON.stringify({ ...common, object: "chat.completion", choices: [choice], usage })),
    stream: written(
      `${events(delta({ role: "assistant", content: "Hello there." }, null), delta({}, "stop"), {
        ...chunk,
        choices: [],
        usage,
      })}data: [DONE]\n\n`,
    ),
  };
}

function responsesAnswer(usage: object): FixedAnswer {
  const part = { type: "output_text", text: "Hello there.", annotations: [] };
  const item = { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [part] };
  const response = { id: "resp_1", object: "response", status: "completed", model: "m", output: [item], usage };
  const begun = { ...response, status: "in_progress", output: [], usage: null };
  const place = { output_index: 0, content_index: 0, item_id: "msg_1" };
  return {
    whole: written(JSON.stringify(response)),
    stream: written(
      typed(
        ...[
          { type: "response.created", response: begun },
          { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
          { type: "response.output_text.delta", ...place, delta: "Hello there." },
          { type: "response.output_item.done", output_index: 0, item },
          { type: "response.completed", response },
        ].map((event, sequence_number) => ({ ...event, sequence_number })),
      ),
    ),
  };
}

function messagesAnswer(usage: { input_tokens: unknown; output_tokens: unknown }): FixedAnswer {
  const content = [{ type: "text", text: "Hello there." }];
  const message = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };
  return {
    whole: written(JSON.stringify({ ...message, content, stop_reason: "end_turn", usage })),
    stream: written(
      typed(
        { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello there." } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
        { type: "message_stop" },
      ),
    ),
  };
}

const answersWith = (input: unknown, output: unknown): Record<string, FixedAnswer> => ({
  "/v1/chat/completions": chatAnswer({ prompt_tokens: input, completion_tokens: output }),
  "/v1/responses": responsesAnswer({ input_tokens: input, output_tokens: output }),
  "/v1/messages": messagesAnswer({ input_tokens: input, output_tokens: output }),
});

const liar = await startFixedUpstream(answersWith(absurd, absurd));
const broken = await startFixedUpstream(answersWith(12, "1e999"));
after(() => {
  liar.close();
  broken.close();
});
const world = await startWorld({
  catalog: () =>
    catalogText({
      upstreams: { liar: upstreamAt(liar.url), broken: upstreamAt(broken.url) },
      models: { "lying-model": modelOn("liar"), "broken-model": modelOn("broken") },
    }),
});
after(() => world[Symbol.asyncDispose]());

const sides = [chat, responses, messages];

async function makeCalls(model: string, secret: string): Promise<string[]> {
  const rids: string[] = [];
  for (const side of sides) {
    for (const stream of [false, true]) {
      const said = side === responses ? { input: "Hello?" } : { messages: [{ role: "user", content: "Hello?" }] };
      const body = JSON.stringify({ model, stream, ...side.fields, ...said });
      // Not `ask`, which holds answers against the API's description: these are none.
      const reply = await fetch(`${world.relayUrl}${side.path}`, {
        method: "POST",
        headers: side.headers(secret),
        body,
      });
      assert.deepEqual([reply.status, (await reply.text()).includes("Hello there.")], [200, true]);
      rids.push(ridOf(reply));
    }
  }
  return rids;
}

const errorLines = (service: "relay" | "auth-quota" | "billing"): string[] =>
  world.linesOf(service).filter((line) => line.includes('"level":"error"'));

test("9e15 tokens, whole and streamed: charged at what the model can take, hold closed, told once, kept for a person", async () => {
  const creditNanos = 1_000_000_000_000n;
  const customer = await world.createCustomer({ creditNanos });
  const rids = await makeCalls("lying-model", customer.secret);
  const most = costOf({ inputTokens: 128_000n, outputTokens: 16_384n });
  for (const rid of rids) {
    const line = await world.untilBooked(customer.accountId, rid);
    assert.deepEqual(unitsOf(line), { inputTokens: 128_000n, outputTokens: 16_384n });
    assert.equal(line.amountNanos, -most);
    assert.equal(line.usage.toldUsage?.inputTokens, BigInt(absurd));
    assert.equal(line.usage.usageSource, UsageSource.PROVIDER);
  }
  const balanceNanos = creditNanos - most * BigInt(rids.length);
  const money = { balanceNanos, availableNanos: balanceNanos, openHolds: 0n, unpostedCalls: 0n };
  assert.deepEqual(await world.moneyOf(customer.accountId), money);
  const { records } = await world.billing.listQuarantine({ onlyOpen: true });
  assert.deepEqual(records.map(({ rid }) => rid).toSorted(), rids.toSorted());
  assert.ok(
    records.every(({ reason }) => reason.startsWith("usage_impossible: liar told inputTokens 9000000000000000")),
  );
  await until("the spool has let go of all of them, so that nothing is told again", async () => {
    const text = await (await fetch(`${world.stack.addresses.opsUrls.relay}/metrics`)).text();
    return /^relay_spool_records\{[^}]*\} 0$/m.test(text);
  });
  const errors = { relay: errorLines("relay").length, billing: errorLines("billing").length };
  assert.deepEqual([errors, errorLines("auth-quota")], [{ relay: rids.length, billing: rids.length }, []]);

  let answer = "";
  const { authQuotaAddress, billingAddress } = world.stack.addresses;
  const code = await runCommand(["reconcile", "--day", new Date().toISOString().slice(0, 10)], {
    environment: {
      ...grpcFilesIn(world.stack.tlsFolder, "admin"),
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      BILLING_ADDRESS: billingAddress,
    },
    addressesFile: "none",
    output: { answer: (text) => void (answer += text), aside: (text) => void (answer += text) },
  });
  assert.equal(code, 0, answer);
  assert.match(answer, /^unexplained difference in USD +0\.000000000$/m);
});

test("counts that are none are not told: input and output are counted, never free", async () => {
  const customer = await world.createCustomer();
  for (const rid of await makeCalls("broken-model", customer.secret)) {
    const { usage, amountNanos } = await world.untilBooked(customer.accountId, rid);
    assert.equal(usage.usage?.outputTokens, 4n, "twelve characters");
    assert.ok(-amountNanos > (3n * prices.outputTokens) / 1_000_000n);
    assert.ok(usage.usageSource === UsageSource.ESTIMATED || usage.usageSource === UsageSource.PROVIDER_INPUT);
  }
});
