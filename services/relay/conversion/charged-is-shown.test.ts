import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import { meterCall, type MeterReading } from "../charge/meter.ts";
import { endingOf } from "../charge/outcomes.ts";
import { boundTally } from "../charge/possible-usage.ts";
import { clients, providers, upstreamDialects } from "../dialects/conversions.ts";
import { emptyTally, type DialectName, type StreamTap, type Tally } from "../dialects/dialect.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import {
  eventsOf,
  scripts,
  soundCounts,
  spoken,
  streamOf,
  wholeOf,
  type Counts,
  type Script,
  type Spoken,
} from "../testing/answer-scripts.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { convertReply, createTranslator } from "./convert.ts";

const limits = { contextTokens: 200_000, maxOutputTokens: 64_000 };
const callers = Object.keys(clients) as DialectName[];
const inputTokens = 7;
const asked = { model: "m", wantsStreamUsage: true, inputTokens };
const envelope = envelopeOf({ stream: true, stream_options: { include_usage: true } });
const clean = <T>(error: T): T => error;
const requested = { inputTokens, units: {}, priceFields: {} };
const prices: Units = { inputTokens: 3n, outputTokens: 5n, cacheReadTokens: 1n, webSearches: 7n };

const conversionOf = (from: Spoken, to: DialectName) => {
  const [client, provider] = [clients[to], providers[from]];
  assert.ok(client && provider);
  return { client, provider };
};

/** Counts as every caller's format can tell them. */
type Shown = { input: bigint; cached: bigint; output: bigint; reasoning: bigint; searches: bigint };

/** What a caller reads of a `usage`, by the documents of its format. */
function readShown(to: DialectName, usage: unknown): Shown {
  const count = (...path: string[]): bigint => {
    let found: unknown = usage;
    for (const name of path) found = (found as Record<string, unknown> | undefined)?.[name];
    return BigInt((found as number | undefined) ?? 0);
  };
  const searches = count("server_tool_use", "web_search_requests");
  if (to === "anthropic-messages") {
    const cached = count("cache_read_input_tokens");
    return {
      input: count("input_tokens") + cached + count("cache_creation_input_tokens"),
      cached,
      output: count("output_tokens"),
      reasoning: count("output_tokens_details", "thinking_tokens"),
      searches,
    };
  }
  const [input, output] =
    to === "openai-chat" ? ["prompt_tokens", "completion_tokens"] : ["input_tokens", "output_tokens"];
  return {
    input: count(input),
    cached: count(`${input}_details`, "cached_tokens"),
    output: count(output),
    reasoning: count(`${output}_details`, "reasoning_tokens"),
    searches,
  };
}

/** The same of what is charged. */
function readCharged({ measured }: MeterReading): Shown {
  const sum = (...buckets: UsageBucket[]): bigint => buckets.reduce((all, name) => all + (measured[name] ?? 0n), 0n);
  return {
    input: sum(
      "inputTokens",
      "cacheReadTokens",
      "cacheWrite5mTokens",
      "cacheWrite1hTokens",
      "audioInputTokens",
      "imageInputTokens",
    ),
    cached: sum("cacheReadTokens"),
    output: sum("outputTokens", "reasoningTokens", "audioOutputTokens", "imageOutputTokens"),
    reasoning: sum("reasoningTokens"),
    searches: sum("webSearches"),
  };
}

/** What a tally is charged for, as the settlement of a call does it. */
function charge(tally: Tally, endCause: EndCause): MeterReading {
  const settled = structuredClone(tally);
  // The very object stands for counts that are none.
  settled.usage = tally.usage;
  boundTally(settled, limits);
  return meterCall(settled, endingOf(endCause, false), requested, prices);
}

type Watched = { told: string; tally: Tally; metered: MeterReading };

/** Reads a stream as the pump does, until the answer is whole: what comes behind that is not charged. */
function watch(tap: StreamTap, stream: readonly string[]): Watched {
  const tally = emptyTally();
  let told = "";
  for (const event of stream) {
    const verdict = tap.read(readStreamEvent(Buffer.from(event)), tally);
    if (typeof verdict !== "string") told += verdict.toString();
    else if (verdict === "pass") told += event;
    if (verdict === "end") break;
  }
  told += tap.end(tally);
  const isWhole = !tally.isFailed && (tally.isComplete || tally.hasFinish);
  return { told, tally, metered: charge(tally, isWhole ? EndCause.COMPLETE : EndCause.UPSTREAM_CUT) };
}

const passed = (from: Spoken, stream: readonly string[]): Watched =>
  watch(upstreamDialects[from].createTap(envelope, clean), stream);
const translated = (from: Spoken, to: DialectName, stream: readonly string[]): Watched =>
  watch(createTranslator({ conversion: conversionOf(from, to), asked, envelope, clean, limits }), stream);

/** The counts with which a stream in the caller's format ends; undefined when it does not end well. */
function endOf(to: DialectName, told: string): unknown {
  const events = eventsOf(told);
  if (to === "openai-chat") {
    const usages = events.map((event) => event["usage"]).filter(Boolean);
    // Zeros behind real counts are none.
    return usages.findLast((usage) => /:[1-9]/.test(JSON.stringify(usage))) ?? usages.at(-1);
  }
  if (to === "anthropic-messages") return events.findLast(({ type }) => type === "message_delta")?.["usage"];
  const last = events.findLast(({ type }) => type === "response.completed" || type === "response.incomplete");
  return (last?.["response"] as Record<string, unknown> | undefined)?.["usage"];
}

/** Whether anything is charged: the provider's counts, as they are or raised to what was sent, or an estimate. */
const isCharged = ({ metered }: { metered: MeterReading }): boolean => metered.source !== UsageSource.NONE;

const comparable = ({
  usage,
  counted,
  contentTokens,
  hasContent,
  modelServed,
  hasFinish,
  isEnding,
}: Tally): unknown[] => [usage, counted, contentTokens, hasContent, modelServed, hasFinish, isEnding];

const runs = { numRuns: 300 };

for (const from of spoken) {
  describe(`answers of ${from}`, () => {
    test("whatever counts a stream tells, and in whatever order: what is charged is what each caller is shown", () => {
      const check = fc.property(scripts, fc.constantFrom(...callers), (script, to) => {
        const stream = streamOf(from, script);
        const watched = translated(from, to, stream);
        const plain = passed(from, stream);
        if (watched.tally.isFailed || !watched.tally.hasFinish) return;
        assert.deepEqual(comparable(watched.tally), comparable(plain.tally), "the same is counted of what passes");
        assert.deepEqual(watched.metered, plain.metered);
        if (!isCharged(watched)) return;
        const usage = endOf(to, watched.told);
        // Without its end mark a message is whole for nobody but the ledger.
        if (usage === undefined && !watched.tally.isComplete) return;
        assert.deepEqual(readShown(to, usage), readCharged(watched.metered));
      });
      fc.assert(check, runs);
    });

    test("a whole answer is charged as it is shown, and as a stream of the same content is", () => {
      const check = fc.property(scripts, fc.constantFrom(...callers), (script, to) => {
        const settledOnly: Script = { ...script, first: undefined, steps: [], behind: [] };
        const body = wholeOf(from, settledOnly);
        const conversion = conversionOf(from, to);
        const whole = convertReply(body, { conversion, asked, envelope, limits });
        assert.ok(whole?.body);
        const metered = charge(whole.tally, EndCause.COMPLETE);
        const told = JSON.parse(whole.body.toString()) as Record<string, unknown>;
        if (isCharged({ metered })) assert.deepEqual(readShown(to, told["usage"]), readCharged(metered));
        const streamed = passed(from, streamOf(from, settledOnly));
        assert.deepEqual(streamed.metered, metered);
        assert.equal(streamed.tally.contentTokens, whole.tally.contentTokens);
        assert.deepEqual(
          charge(upstreamDialects[from].readReply(body, envelope) ?? emptyTally(), EndCause.COMPLETE),
          metered,
        );
      });
      fc.assert(check, runs);
    });
  });
}

/** Counts that a sound provider tells: whole, and no part above its whole. */
function sound(told: Partial<Counts>): Counts {
  const [input, cached, output, reasoning, searches] = (
    ["input", "cached", "output", "reasoning", "searches"] as const
  ).map((name) => (Number.isSafeInteger(told[name]) && Number(told[name]) >= 0 ? Number(told[name]) % 1_000 : 2)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return { input, cached: Math.min(cached, input), output, reasoning: Math.min(reasoning, output), searches };
}

const soundScripts = scripts.map(({ pieces, first, last, steps, behind }): Script => ({
  pieces,
  first: first && sound(first),
  last: last && sound(last),
  steps: steps.map((one) => (one.kind === "tell" ? { ...one, counts: sound(one.counts) } : one)),
  behind: behind.map(sound),
}));

const inputNames = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const tellsInput = (usage: object): boolean =>
  inputNames.some((name) => Number((usage as Record<string, unknown>)[name] ?? 0) > 0);

/** What a client of the provider's own format makes of the counts in a stream, up to its end mark. */
function readOwn(from: DialectName, told: string): unknown {
  if (from !== "anthropic-messages") return endOf(from, told.split("data: [DONE]")[0] ?? "");
  const merged: Record<string, unknown> = {};
  let hasStopReason = false;
  for (const event of eventsOf(told)) {
    // API spec, Streaming that stops partway: an end without a stop_reason is the end of no whole answer.
    if (event["type"] === "message_stop" && hasStopReason) break;
    if ((event["delta"] as Record<string, unknown> | undefined)?.["stop_reason"]) hasStopReason = true;
    const isStart = event["type"] === "message_start";
    const usage = (isStart ? (event["message"] as Record<string, unknown>)["usage"] : event["usage"]) ?? {};
    // An input of 0 behind one that was told says nothing: servers send it.
    const hasInput = tellsInput(usage) || !tellsInput(merged);
    for (const [name, count] of Object.entries(usage)) {
      const isTaken = name.startsWith("output") ? !isStart : hasInput || !inputNames.includes(name);
      if (count !== null && isTaken) merged[name] = count;
    }
  }
  return merged;
}

for (const from of callers) {
  test(`of a stream of ${from} that passes untouched, what is charged is what its own clients read`, () => {
    const check = fc.property(soundScripts, (script) => {
      const { told, tally, metered } = passed(from as Spoken, streamOf(from as Spoken, script));
      if (!tally.isComplete || tally.isFailed || metered.source !== UsageSource.PROVIDER) return;
      const [shown, charged] = [readShown(from, readOwn(from, told)), readCharged(metered)];
      // Counts that are all 0 behind real ones tell nothing: servers send them.
      if (Object.values(shown).every((count) => count === 0n)) return;
      // OpenAI tells searches beside its usage, or only by the items of the answer.
      assert.deepEqual({ ...shown, searches: 0n }, { ...charged, searches: 0n });
    });
    fc.assert(check, runs);
  });
}

test("counts of a message replace those before them one by one, however often its start comes", () => {
  const check = fc.property(scripts, fc.array(soundCounts, { maxLength: 3 }), soundCounts, (script, starts, last) => {
    const told = starts.map((counts, index) => (index % 2 === 1 ? counts : { input: counts.input }));
    // An input of 0 says nothing where one was told before.
    if (told.some(({ input }) => input === 0)) return;
    const steps: Script["steps"] = told.map((counts) => ({ kind: "tell", at: 1, counts }));
    const ending = { output: last.output, ...(last.cached > 450 && { cached: last.cached }) };
    const stream = streamOf("anthropic-messages", { ...script, first: undefined, last: ending, steps, behind: [] });
    const { input, cached, searches } = Object.assign({}, ...told.toReversed(), ending) as Counts;
    const { metered } = passed("anthropic-messages", stream);
    const charged = readCharged(metered);
    // Counts without the input are lower bounds.
    if (input === undefined) {
      return assert.ok(charged.input >= BigInt(cached ?? 0) && charged.output >= BigInt(last.output ?? 0));
    }
    const expected = { input: BigInt(input ?? 0) + BigInt(cached ?? 0), output: BigInt(last.output ?? 0) };
    assert.partialDeepStrictEqual(charged, { ...expected, cached: BigInt(cached ?? 0) });
    assert.equal(charged.searches, BigInt(searches ?? 0));
  });
  fc.assert(check, runs);
});

test("counts behind chat's end mark are neither charged nor shown", () => {
  const chunk = (fields: object): string => `data: ${JSON.stringify({ id: "c", ...fields })}\n\n`;
  const stream = [
    chunk({ choices: [{ index: 0, delta: { content: "12345678" }, finish_reason: "stop" }] }),
    "data: [DONE]\n\n",
    chunk({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 9 } }),
  ];
  const { metered, tally } = passed("openai-chat", stream);
  assert.deepEqual(
    [tally.usage, metered.source, metered.measured.outputTokens],
    [undefined, UsageSource.ESTIMATED, 6n],
  );
});

test("a response that fails behind its end is charged as it was shown", () => {
  const event = (type: string, response: object): string => `data: ${JSON.stringify({ type, response })}\n\n`;
  const item = { type: "message", content: [{ type: "output_text", text: "12345678", annotations: [] }] };
  const usageWith = (output_tokens: number) => ({ input_tokens: 9, output_tokens, total_tokens: 9 + output_tokens });
  const stream = [
    event("response.completed", { output: [item], usage: usageWith(3) }),
    event("response.failed", { usage: usageWith(7), error: { message: "late" } }),
  ];
  const { told, tally } = translated("openai-responses", "openai-chat", stream);
  assert.equal(tally.usage?.outputTokens, 3n);
  assert.equal(readShown("openai-chat", endOf("openai-chat", told)).output, 3n);
});
