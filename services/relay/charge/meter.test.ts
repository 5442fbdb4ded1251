import type { RequestFacts } from "../live-call.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { pricedFor } from "../catalog/models.ts";
import { emptyTally, type DialectName, type Tally } from "../dialects/dialect.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { mediaTokens } from "./media-tokens.ts";
import {
  countInputTokens,
  estimateInputTokens,
  estimateNanos,
  estimateOutputTokens,
  meterCall,
  runningCostNanos,
} from "./meter.ts";
import { envelopeOf, modelOf } from "../testing/fakes.ts";

const tallyOf = (changes: Partial<Tally>): Tally => ({ ...emptyTally(), ...changes });

const sum = (units: Units): bigint => Object.values(units).reduce((total, count) => total + count, 0n);

const price = fc.bigInt({ min: 1n, max: 200_000_000_000n });
const share = fc.double({ min: 0, max: 1, noNaN: true });
const conversations = fc.record({
  text: fc.string({ maxLength: 2_000 }),
  pictures: fc.array(fc.nat({ max: 30_000 }), { maxLength: 2 }),
  cap: fc.option(fc.integer({ min: 1, max: 20_000 }), { nil: undefined }),
  n: fc.integer({ min: 1, max: 4 }),
  prices: fc.record({ inputTokens: price, outputTokens: price, reasoningTokens: price, requests: price }),
  input: share,
  cached: share,
  output: share,
  reasoning: share,
});

const part = (whole: number, of: number): number => Math.floor(whole * of);

const picture = (bytes: number) => ({
  type: "image_url",
  image_url: { url: `data:image/png;base64,${Buffer.alloc(bytes, 7).toString("base64")}` },
});

// The real condition under which a hold covers its charge. Input is at most a tenth more than its text weighs, and what
// is held for each picture, and no more than the model reads; no kind of input is dearer than input tokens read
// afresh (a cache write may be); text output and reasoning together keep to the caller's cap, or to what is held
// where there is none; no tool is billed by the call.
test("the hold covers the charge whenever output keeps to its cap and input to a tenth more than its weight", () => {
  fc.assert(
    fc.property(conversations, ({ text, pictures, cap, n, prices, ...shares }) => {
      const model = modelOf({ prices: { ...prices, cacheReadTokens: prices.inputTokens } });
      const messages = [{ content: [{ type: "text", text }, ...pictures.map(picture)] }];
      const envelope = envelopeOf({ messages, n, stream: true, ...(cap && { max_completion_tokens: cap }) });
      const { body } = envelope;
      const weight = Math.floor(body.textTokens(model.contextTokens) * 1.1);
      const mostInput = Math.min(weight + mediaTokens(body).tokens, model.contextTokens);
      const mostOutput = Math.min(cap ?? model.reserveOutputTokens, model.maxOutputTokens) * n;
      const input = part(mostInput, shares.input);
      const output = part(mostOutput, shares.output);
      const usage: Units = {
        inputTokens: BigInt(input - part(input, shares.cached)),
        cacheReadTokens: BigInt(part(input, shares.cached)),
        outputTokens: BigInt(output - part(output, shares.reasoning)),
        reasoningTokens: BigInt(part(output, shares.reasoning)),
        requests: 1n,
      };
      assert.equal(sum(usage), BigInt(input + output + 1));
      assert.ok(estimateNanos(envelope, model) >= costNanos(usage, model.prices));
    }),
    { numRuns: 500 },
  );
});

test("a hold holds at the prices of the longest input that it allows for: a variant by input is not escaped", () => {
  const dear = modelOf({ prices: { inputTokens: 4_000_000_000n, outputTokens: 8_000_000_000n } });
  const model = modelOf({ variants: [{ where: {}, aboveInputTokens: 50, model: dear }] });
  fc.assert(
    fc.property(fc.string({ maxLength: 400 }), share, (text, of) => {
      const envelope = envelopeOf({ messages: [{ content: text }], max_tokens: 10 });
      const most = estimateInputTokens(envelope, model);
      const at = (inputTokens: number) => pricedFor(model, () => ({ fields: {}, inputTokens }));
      const inputTokens = part(most, of);
      const usage = { inputTokens: BigInt(inputTokens), outputTokens: 10n };
      assert.ok(estimateNanos(envelope, at(most)) >= costNanos(usage, at(inputTokens).prices));
    }),
  );
});

test("the hold of output: the caller's cap, at most the model's, for each choice; without one a stream's reserve", () => {
  const model = modelOf({ maxOutputTokens: 10_000, reserveOutputTokens: 1_000 });
  assert.equal(estimateOutputTokens(envelopeOf({ stream: true }), model), 1_000);
  assert.equal(estimateOutputTokens(envelopeOf(), model), 1_000);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 50 }), model), 50);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 5_000 }), model), 5_000);
  assert.equal(estimateOutputTokens(envelopeOf({ max_completion_tokens: 1e12 }), model), 10_000);
  const older = { ...model, quirks: new Set(["max-tokens"] as const) };
  assert.equal(estimateOutputTokens(envelopeOf({ max_completion_tokens: 5 }), model), 5);
  assert.equal(estimateOutputTokens(envelopeOf({ max_completion_tokens: 5 }), older), model.reserveOutputTokens);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 5 }), older), 5);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 5, max_completion_tokens: 4 }), older), 5);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 50, n: 3 }), model), 150);
  assert.equal(estimateOutputTokens(envelopeOf({ max_tokens: 0 }, "anthropic-messages"), model), 0);
});

test("the hold takes the dearer of output and reasoning, adds the price of the request and is rounded up", () => {
  const envelope = envelopeOf({ max_tokens: 10 });
  const prices = { inputTokens: 0n, outputTokens: 3_000_000n, reasoningTokens: 5_000_000n };
  assert.equal(estimateNanos(envelope, modelOf({ prices })), 50n);
  assert.equal(estimateNanos(envelope, modelOf({ prices: { ...prices, reasoningTokens: 1n } })), 30n);
  assert.equal(estimateNanos(envelope, modelOf({ prices: { ...prices, requests: 7_000_001n } })), 58n);
});

test("input is never more than the model reads at once", () => {
  const model = modelOf({ contextTokens: 50 });
  const envelope = envelopeOf({ messages: [{ content: "word ".repeat(1_000) }] });
  assert.equal(estimateInputTokens(envelope, model), 50);
  assert.equal(countInputTokens(envelope, model), 50);
});

const inputOf = (content: unknown[]): number[] => {
  const envelope = envelopeOf({ messages: [{ role: "user", content }] });
  const model = modelOf({ contextTokens: 1_000_000 });
  const empty = envelopeOf({ messages: [{ role: "user", content: [] }] });
  return [estimateInputTokens, countInputTokens].map((read) => read(envelope, model) - read(empty, model));
};

const between = (found: readonly number[], least: number, most: number): void => {
  for (const tokens of found) assert.ok(tokens >= least && tokens <= most, `${tokens} is not in ${least} to ${most}`);
};

test("a picture of unknown size counts as a usual one and by its bytes, not as the text it is encoded in", () => {
  between(inputOf([picture(300_000)]), 2_000, 2_100);
});

/** The head of a PNG, which says its size, and nothing behind it. */
function png(width: number, height: number) {
  const bytes = Buffer.alloc(64);
  Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").copy(bytes);
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  return { type: "image_url", image_url: { url: `data:image/png;base64,${bytes.toString("base64")}` } };
}

test("a picture counts by its size, however few bytes it is", () => {
  between(inputOf([png(1, 1)]), 85, 130);
  between(inputOf([png(1_024, 1_024)]), 1_399, 1_450);
  between(inputOf([png(3_840, 2_160)]), 4_784, 4_850);
});

const pdf = (text: string, more: Buffer = Buffer.alloc(0)) => ({
  type: "file",
  file: {
    file_data: `data:application/pdf;base64,${Buffer.concat([Buffer.from(`%PDF-1.7\n${text}`), more]).toString("base64")}`,
  },
});

test("a PDF counts by its pages, also where these are compressed, and as all of the context where it tells none", () => {
  const pages = "<< /Type /Page /Parent 1 0 R >>\n".repeat(100);
  const padding = "x".repeat(3_000);
  between(inputOf([pdf(`<< /Type /Pages /Count 100 >>\n${pages}`)]), 440_000, 441_000);
  const packed = Buffer.concat([
    Buffer.from("<< /Type /ObjStm >>\nstream\n"),
    deflateSync(pages),
    Buffer.from("\nendstream"),
  ]);
  between(inputOf([pdf(padding, packed)]), 440_000, 441_000);
  const [held = 0] = inputOf([pdf(padding)]);
  assert.ok(held > 990_000, `${held} for a PDF without pages`);
  const [ofEncrypted = 0] = inputOf([pdf(`/Encrypt 7 0 R ${pages}`)]);
  assert.ok(ofEncrypted > 990_000);
});

test("what a request names and does not bring is held for as much as the model reads, a picture for the largest", () => {
  const model = modelOf({ contextTokens: 500_000 });
  const address = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  between([inputOf([address])[0] ?? 0], 4_784, 4_850);
  const unseen: [object, DialectName][] = [
    [{ messages: [{ content: [{ type: "file", file: { file_id: "file-1" } }] }] }, "openai-chat"],
    ...Object.entries({
      video_url: { video_url: { url: "https://a.example/b.mp4" } },
      "video_url as a text": { video_url: "https://a.example/b.mp4" },
      "video_url with the content": { video_url: { url: `data:video/mp4;base64,${"AAAA".repeat(1_000)}` } },
      input_video: { input_video: { url: "https://a.example/b.mp4" } },
      "frames of a video": { type: "video", video: ["https://a.example/1.png"] },
      audio_url: { audio_url: { url: "https://a.example/b.mp3" } },
      document_url: { document_url: "https://a.example/b.pdf" },
      "sound by its address": { input_audio: { data: "https://a.example/b.mp3", format: "mp3" } },
      "a file by its address": { file: { filename: "b.pdf", file_data: "https://a.example/b.pdf" } },
    }).map(([name, part]): [object, DialectName] => [{ name, messages: [{ content: [part] }] }, "openai-chat"]),
    [{ input: [{ content: [{ type: "input_file", file_data: "https://a.example/b.pdf" }] }] }, "openai-responses"],
    [{ input: [{ content: [{ type: "input_video", video_url: "https://a.example/b.mp4" }] }] }, "openai-responses"],
    [{ input: "go on", previous_response_id: "resp_1" }, "openai-responses"],
    [{ input: "go on", conversation: "conv_1" }, "openai-responses"],
    [{ input: "go on", prompt: { id: "pmpt_1" } }, "openai-responses"],
    [{ input: [{ type: "item_reference", id: "msg_1" }] }, "openai-responses"],
    [{ input: [{ content: [{ type: "input_file", file_url: "https://a.example/b.pdf" }] }] }, "openai-responses"],
    [
      { max_tokens: 1, messages: [{ content: [{ type: "document", source: { type: "url", url: "https://a" } }] }] },
      "anthropic-messages",
    ],
  ];
  const mcp = { type: "mcp", server_label: "a", server_url: "https://a.example" };
  const later = { type: "additional_tools", role: "developer", tools: [mcp] };
  unseen.push(
    [{ input: "go on", tools: [mcp] }, "openai-responses"],
    [{ input: [later] }, "openai-responses"],
    [{ messages: [], tools: [{ type: "function" }, mcp] }, "openai-chat"],
    [{ max_tokens: 1, messages: [], tools: [{ type: "web_fetch_20250910", name: "f" }] }, "anthropic-messages"],
    [{ max_tokens: 1, messages: [], mcp_servers: [{ type: "url", url: "https://a.example" }] }, "anthropic-messages"],
  );
  for (const [fields, dialect] of unseen) {
    assert.equal(estimateInputTokens(envelopeOf(fields, dialect), model), 500_000, JSON.stringify(fields));
  }
  const named = { type: "function", name: "mcp__a__b", description: "mcp", parameters: { enum: ["mcp", "web_fetch"] } };
  assert.ok(estimateInputTokens(envelopeOf({ input: "x", tools: [named] }, "openai-responses"), model) < 700);
  assert.ok(estimateInputTokens(envelopeOf({ input: "x", mcp_servers: [] }, "openai-responses"), model) < 100);
  const escaped = readJsonBody(Buffer.from('{"messages":[{"content":[{"file":{"\\u0066ile_id":"f"}}]}]}'));
  assert.equal(estimateInputTokens({ ...envelopeOf(), body: escaped }, model), 500_000, "a key in escapes");
  const said = envelopeOf({ messages: [{ content: 'Is "file_id" or "type":"url" right?' }] });
  assert.ok(estimateInputTokens(said, model) < 100, "words in a text name nothing");
});

/** MPEG-2 frames of layer 3 at 8 kbit/s, each 24 ms long. */
const quietFrames = (seconds: number): Buffer =>
  Buffer.concat(
    Array.from({ length: Math.ceil(seconds / 0.024) }, () =>
      Buffer.concat([Buffer.of(0xff, 0xf3, 0x14), Buffer.alloc(21)]),
    ),
  );

test("sound in a conversation is held by how long it lasts, and charged so where no counts come", () => {
  const model = modelOf({ contextTokens: 1_000_000 });
  const asked = (file: Buffer): [number, number] => {
    const input_audio = { data: file.toString("base64"), format: "mp3" };
    const envelope = envelopeOf({ messages: [{ role: "user", content: [{ type: "input_audio", input_audio }] }] });
    return [estimateInputTokens(envelope, model), countInputTokens(envelope, model)];
  };
  // 32 tokens a second are the most that a provider bills, 10 what the cheapest does.
  const [held, charged] = asked(quietFrames(3_600));
  between([held], 115_200, 116_000);
  between([charged], 36_000, 36_100);
  const [ofUnknown] = asked(Buffer.alloc(400_000, 7));
  between([ofUnknown], 3_200, 3_300);
});

test("a text that begins like media is held and charged as text", () => {
  const letters = "Ab3x".repeat(240_000);
  const envelope = envelopeOf({ messages: [{ role: "user", content: letters }] });
  const model = modelOf({ contextTokens: 1_000_000 });
  assert.ok(estimateInputTokens(envelope, model) > letters.length / 3);
  assert.ok(countInputTokens(envelope, model) > letters.length / 4);
});

test("what a running stream has cost: counted input and the dearer of output and reasoning", () => {
  const prices = { inputTokens: 1_000_000n, outputTokens: 2_000_000n, reasoningTokens: 3_000_000n };
  assert.equal(
    runningCostNanos(tallyOf({ contentTokens: 10 }), modelOf({ prices }), { inputTokens: 100, units: {} }),
    130,
  );
  const cheaperThought = modelOf({ prices: { ...prices, reasoningTokens: 1n } });
  assert.equal(runningCostNanos(tallyOf({ contentTokens: 10 }), cheaperThought, { inputTokens: 100, units: {} }), 120);
});

test("what a running stream has cost: the provider's count of the input, at the prices of its buckets, once it came", () => {
  const prices = { inputTokens: 1_000_000n, cacheWrite1hTokens: 2_000_000n, outputTokens: 2_000_000n };
  const inputUsage = { inputTokens: 5n, cacheWrite1hTokens: 1_000n, outputTokens: 0n };
  assert.equal(
    runningCostNanos(tallyOf({ contentTokens: 10, inputUsage }), modelOf({ prices }), { inputTokens: 100, units: {} }),
    2_025,
  );
});

const completed = tallyOf({ hasContent: true, hasFinish: true, isComplete: true });
const bodyless: RequestFacts = {
  inputTokens: 9,
  units: { images: 4n, characters: 30n, imageOutputTokens: 99n },
  priceFields: {},
};
const chargeOf = (tally: Tally, prices: Units) => {
  const { usage, source } = meterCall(tally, "whole", bodyless, prices);
  return { usage, source };
};

test("a model is charged in the units that it is priced in: by the image, by tokens, by the character, by the request", () => {
  const tokens: Units = { inputTokens: 10n, imageInputTokens: 0n, imageOutputTokens: 300n, outputTokens: 0n };
  const images = { ...completed, counted: { images: 2n }, usage: tokens };
  const byToken = { inputTokens: 1n, imageInputTokens: 1n, imageOutputTokens: 1n, outputTokens: 1n };
  assert.deepEqual(chargeOf(images, { images: 1n }), { usage: { images: 2n }, source: UsageSource.ESTIMATED });
  assert.deepEqual(chargeOf(images, byToken), { usage: tokens, source: UsageSource.PROVIDER });
  assert.deepEqual(chargeOf(images, { ...byToken, images: 1n }).usage, { ...tokens, images: 2n }, "both when both are");
  assert.deepEqual(chargeOf(completed, { characters: 1n }).usage, { characters: 30n });
  assert.deepEqual(chargeOf(completed, { requests: 1n }).usage, { requests: 1n });
});

test("units that the provider does not tell are those of the request, or what the answer showed of them", () => {
  assert.deepEqual(chargeOf(completed, { images: 1n }).usage, { images: 4n });
  assert.deepEqual(chargeOf({ ...completed, counted: { images: 1n } }, { images: 1n }).usage, { images: 1n });
  assert.deepEqual(chargeOf(completed, { imageOutputTokens: 1n, inputTokens: 1n }), {
    usage: { inputTokens: 9n, imageOutputTokens: 99n },
    source: UsageSource.ESTIMATED,
  });
  assert.deepEqual(chargeOf({ ...completed, usage: { mediaMs: 2_500n } }, { mediaMs: 1n }), {
    usage: { mediaMs: 2_500n },
    source: UsageSource.PROVIDER,
  });
});

test("all that is known of a call is told beside what is charged: it may cost the operator in other units", () => {
  const tokens: Units = { inputTokens: 10n, imageOutputTokens: 300n, outputTokens: 0n };
  const images = { ...completed, counted: { images: 2n }, usage: tokens };
  const { usage, measured } = meterCall(images, "whole", bodyless, { images: 1n });
  assert.deepEqual(usage, { images: 2n });
  assert.deepEqual([measured.images, measured.inputTokens, measured.imageOutputTokens], [2n, 10n, 300n]);
  const failed = meterCall(tallyOf({ inputUsage: tokens }), "cut", bodyless, { inputTokens: 1n });
  assert.deepEqual([failed.usage, failed.measured], [{}, tokens], "nothing is charged, the provider may charge");
});

test("a call of which no price speaks is not dropped: the ledger refuses it aloud instead of booking it as free", () => {
  assert.ok(sum(chargeOf(completed, {}).usage) > 0n);
});

test("without counts, sound costs at least what its file lasts, and hidden tries what the shown one does", () => {
  const requested = { ...bodyless, units: { mediaMs: 9_000n }, leastMediaMs: 8_000n, triesPerChoice: 4 };
  const silence = tallyOf({ ...completed, usage: undefined, counted: { mediaMs: 134n }, contentTokens: 2.1 });
  const { measured } = meterCall(silence, "whole", requested, { mediaMs: 1n, outputTokens: 1n });
  assert.deepEqual([measured.mediaMs, measured.outputTokens], [8_000n, 9n]);
  const longer = { ...silence, counted: { mediaMs: 8_500n } };
  assert.equal(meterCall(longer, "whole", requested, { mediaMs: 1n }).measured.mediaMs, 8_500n);
  const told = { ...silence, usage: { mediaMs: 7_000n } };
  assert.equal(meterCall(told, "whole", requested, { mediaMs: 1n }).measured.mediaMs, 7_000n, "as it was told");
});

test("the hold of a call without text: its units at their prices", () => {
  const image = envelopeOf({ prompt: "x", n: 3 }, "openai-images");
  assert.equal(estimateNanos(image, modelOf({ prices: { images: 40_000_000_000_000n } })), 120_000_000n);
  const speech = envelopeOf({ input: "hello", voice: "v" }, "openai-speech");
  assert.equal(estimateNanos(speech, modelOf({ prices: { characters: 15_000_000_000n } })), 75_000n);
  const moderation = envelopeOf({ input: "x" }, "openai-moderations");
  assert.equal(estimateNanos(moderation, modelOf({ prices: { requests: 1_000_000n } })), 1n);
});

const textPrices: Units = { inputTokens: 1n, cacheReadTokens: 1n, outputTokens: 1n, reasoningTokens: 1n };
const running = (usage: Units, changes: Partial<Tally> = {}): Tally =>
  tallyOf({ hasContent: true, contentTokens: 200.5, usage, runningAt: 1, ...changes });
const cut = (tally: Tally) => {
  const { usage, source } = meterCall(tally, "cut", bodyless, textPrices);
  return { usage, source };
};

test("counts that were told while an answer ran are lower bounds: a cut one costs what was sent, if that is more", () => {
  assert.deepEqual(cut(running({ inputTokens: 40n, cacheReadTokens: 5n, outputTokens: 1n, reasoningTokens: 0n })), {
    usage: { inputTokens: 40n, cacheReadTokens: 5n, outputTokens: 201n, reasoningTokens: 0n },
    source: UsageSource.PROVIDER_INPUT,
  });
  const thinking = { inputTokens: 40n, outputTokens: 3n, reasoningTokens: 150n };
  assert.deepEqual(cut(running(thinking)).usage, { inputTokens: 40n, outputTokens: 51n, reasoningTokens: 150n });
  const more = { inputTokens: 40n, outputTokens: 3n, reasoningTokens: 900n };
  assert.deepEqual(cut(running(more)), { usage: more, source: UsageSource.PROVIDER }, "it knows what nobody saw");
  assert.equal(
    meterCall(running(thinking), "relay lost", bodyless, textPrices).usage.outputTokens,
    51n,
    "a lost relay charges as if cut",
  );
});

test("an input of one token is a placeholder, as an output is: both are counted when the answer is cut", () => {
  assert.deepEqual(cut(running({ inputTokens: 1n, cacheReadTokens: 0n, outputTokens: 1n })), {
    usage: { inputTokens: 9n, cacheReadTokens: 0n, outputTokens: 201n },
    source: UsageSource.ESTIMATED,
  });
});

test("the last word on a whole answer is the provider's; counts with text behind them are no last word", () => {
  const told = { inputTokens: 40n, outputTokens: 7n };
  assert.deepEqual(chargeOf(running(told, { runningAt: undefined }), textPrices), {
    usage: told,
    source: UsageSource.PROVIDER,
  });
  assert.deepEqual(chargeOf(running(told, { runningAt: 200.5 }), textPrices).usage, told, "no text came behind them");
  assert.deepEqual(chargeOf(running(told), textPrices).usage.outputTokens, 201n);
  assert.deepEqual(cut(running(told, { runningAt: undefined })).usage, told, "the end mark alone was missing");
  assert.deepEqual(cut(running(told, { runningAt: 200.5 })), { usage: told, source: UsageSource.PROVIDER });
});

test("0 that is told of a whole answer with text is charged as told", () => {
  const none = { inputTokens: 0n, outputTokens: 0n };
  assert.deepEqual(chargeOf({ ...completed, contentTokens: 50, usage: none }, textPrices), {
    usage: none,
    source: UsageSource.PROVIDER,
  });
  const empty = { ...completed, hasContent: false, usage: none };
  assert.equal(chargeOf(empty, textPrices).source, UsageSource.NONE, "an empty answer of which 0 was told is none");
});
