import assert from "node:assert/strict";
import { test } from "node:test";
import { type Behaviour, behaviourText } from "./behaviour.ts";
import { type FakeUpstream, startFakeUpstream } from "./upstream.ts";

type Part = {
  text?: string;
  thought?: boolean;
  thoughtSignature?: string;
  functionCall?: { name: string; args: object; id?: string };
};
type Chunk = {
  candidates: { index: number; content: { role: string; parts: Part[] }; finishReason?: string }[];
  usageMetadata?: Record<string, unknown>;
  modelVersion: string;
  error?: { code: number; message: string; status: string };
};

const user = (text: string) => ({ role: "user", parts: [{ text }] });
const ask = { contents: [user("one two three")] };

type Asking = { model?: string; method?: string; headers?: Record<string, string>; body?: object };

function post(upstream: FakeUpstream, asking: Asking = {}): Promise<Response> {
  const { model = "gemini-fake", method = "generateContent", headers = { "x-goog-api-key": "k" }, body = ask } = asking;
  return fetch(`${upstream.url}/v1beta/models/${model}:${method}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

const streamed = { method: "streamGenerateContent?alt=sse" };

async function wholeOf(upstream: FakeUpstream, asking: Asking = {}): Promise<Chunk> {
  return (await (await post(upstream, asking)).json()) as Chunk;
}

/** The text of a stream, also of one that breaks, and its records. */
async function streamOf(upstream: FakeUpstream, asking: Asking = {}): Promise<{ text: string; chunks: Chunk[] }> {
  const response = await post(upstream, { ...asking, ...streamed });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  let text = "";
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const piece of response.body ?? []) text += decoder.decode(piece as Uint8Array, { stream: true });
  };
  await read().catch(() => undefined);
  const records = text.split(/\r\n\r\n|\n\n/).slice(0, -1);
  return { text, chunks: records.map((record) => JSON.parse(record.replace(/^data: ?/, "")) as Chunk) };
}

const partsOf = (chunks: Chunk[]): Part[] => chunks.flatMap(({ candidates }) => candidates[0]?.content.parts ?? []);
const finishOf = (chunk: Chunk | undefined): string | undefined => chunk?.candidates[0]?.finishReason;

const weather = { name: "get_weather", arguments: { city: "New York: City", days: 2 } };
const claimed = { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12, reasoningTokens: 7 };
const claimedUsage = {
  promptTokenCount: 140,
  cachedContentTokenCount: 40,
  candidatesTokenCount: 12,
  totalTokenCount: 159,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 140 }],
  cacheTokensDetails: [{ modality: "TEXT", tokenCount: 40 }],
  thoughtsTokenCount: 7,
};

test("a whole answer: thoughts and text as parts, the model of the path, counts with thoughts apart", async () => {
  await using upstream = await startFakeUpstream({
    behaviour: { text: "Hello there.", thinking: "Hm, yes.", usage: claimed },
  });
  const whole = await wholeOf(upstream, { model: "gemini-2.5-pro" });
  const [thought, text] = partsOf([whole]);
  assert.deepEqual(thought, { text: "Hm, yes.", thought: true });
  assert.equal(text?.text, "Hello there.");
  assert.ok(text.thoughtSignature);
  assert.deepEqual([finishOf(whole), whole.modelVersion], ["STOP", "gemini-2.5-pro"]);
  assert.deepEqual(whole.usageMetadata, claimedUsage);
  const [truth] = upstream.truth;
  assert.deepEqual([truth?.dialect, truth?.model, truth?.isStream], ["gemini", "gemini-2.5-pro", false]);
  assert.deepEqual([truth?.promptTokens, truth?.tokensEmitted, truth?.isClaimEmitted], [3, 4, true]);
});

test("a stream: CR LF, a space behind colons, growing counts on every chunk, the reason on the last alone", async () => {
  await using upstream = await startFakeUpstream({
    behaviour: { text: "a b c", thinking: "Hm, yes.", usage: claimed },
  });
  const { text, chunks } = await streamOf(upstream);
  assert.ok(text.startsWith('data: {"candidates": [{"content": {"parts": [{"text": "Hm,","thought": true}]'));
  assert.ok(text.endsWith("}\r\n\r\n") && !/[^\r]\n/.test(text));
  const parts = partsOf(chunks);
  assert.equal(parts.map((part) => (part.thought ? `(${part.text})` : part.text)).join("|"), "(Hm,)|( yes.)|a| b| c|");
  assert.ok(parts.at(-1)?.thoughtSignature);
  assert.deepEqual(chunks.map(finishOf).filter(Boolean), ["STOP"]);
  assert.equal(finishOf(chunks.at(-1)), "STOP");
  const counts = chunks.map(({ usageMetadata }) => [
    usageMetadata?.["thoughtsTokenCount"],
    usageMetadata?.["candidatesTokenCount"],
  ]);
  assert.deepEqual(counts.slice(0, 4), [
    [1, 0],
    [2, 0],
    [2, 1],
    [2, 2],
  ]);
  assert.deepEqual(chunks.at(-1)?.usageMetadata, claimedUsage);
  assert.deepEqual([upstream.truth[0]?.tokensEmitted, upstream.truth[0]?.ended], [5, "whole"]);
});

test("calls come whole and the reason is still STOP; only models that insist number and sign them", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { tools: [weather, { name: "now", arguments: {} }] } });
  for (const { text, chunks } of [await streamOf(upstream), await streamOf(upstream, { model: "gemini-3-pro" })]) {
    const calls = partsOf(chunks).filter(({ functionCall }) => functionCall);
    assert.deepEqual(
      calls.map(({ functionCall }) => [functionCall?.name, functionCall?.args]),
      [
        ["get_weather", weather.arguments],
        ["now", {}],
      ],
    );
    const isStrict = text.includes("gemini-3");
    assert.deepEqual(
      calls.map(({ functionCall, thoughtSignature }) => [Boolean(functionCall?.id), Boolean(thoughtSignature)]),
      [
        [isStrict, isStrict],
        [isStrict, false],
      ],
    );
    assert.deepEqual(chunks.map(finishOf).filter(Boolean), ["STOP"]);
  }
  const whole = await wholeOf(upstream);
  assert.deepEqual([finishOf(whole), partsOf([whole]).length], ["STOP", 2]);
});

test("a cap, a reason of one's own, several candidates, and no counts", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "a b c d" } });
  const capped = await wholeOf(upstream, { body: { ...ask, generationConfig: { maxOutputTokens: 2 } } });
  assert.deepEqual(
    [finishOf(capped), partsOf([capped])[0]?.text, capped.usageMetadata?.["candidatesTokenCount"]],
    ["MAX_TOKENS", "a b", 2],
  );
  upstream.scriptNext({ finish: "SAFETY" });
  assert.equal(finishOf(await wholeOf(upstream)), "SAFETY");
  const many = await streamOf(upstream, { body: { ...ask, generationConfig: { candidateCount: 2 } } });
  assert.deepEqual(
    many.chunks.filter(finishOf).map(({ candidates }) => candidates[0]?.index),
    [0, 1],
  );
  assert.equal(many.chunks.at(-1)?.usageMetadata?.["candidatesTokenCount"], 8);
  upstream.scriptNext({ usage: "omit" });
  assert.ok((await streamOf(upstream)).chunks.every(({ usageMetadata }) => usageMetadata === undefined));
});

test("the last text of the user scripts, also behind results of calls; the instruction's words count", async () => {
  await using upstream = await startFakeUpstream();
  const contents = [
    user(behaviourText({ text: "scripted" }, "two words")),
    { role: "model", parts: [{ functionCall: { name: "now", args: {} } }] },
    { role: "user", parts: [{ functionResponse: { name: "now", response: { output: "noon" } } }] },
  ];
  const whole = await wholeOf(upstream, { body: { contents, systemInstruction: { parts: [{ text: "Be kind." }] } } });
  assert.equal(partsOf([whole])[0]?.text, "scripted");
  assert.equal(upstream.truth[0]?.promptTokens, 2 + 1 + 2);
});

test("a failure in the middle: an error record, a cut with what was counted until then", async () => {
  await using upstream = await startFakeUpstream();
  const fail = async (behaviour: Behaviour) => {
    upstream.scriptNext({ text: "a b c", ...behaviour });
    return (await streamOf(upstream)).chunks;
  };
  const failed = await fail({ fault: { kind: "error-event", afterChunks: 2 } });
  assert.deepEqual([failed.length, failed.at(-1)?.error?.code, failed.at(-1)?.error?.status], [3, 503, "UNAVAILABLE"]);
  const cut = await fail({ fault: { kind: "cut", afterChunks: 2 } });
  assert.deepEqual([cut.length, cut.at(-1)?.usageMetadata?.["candidatesTokenCount"]], [2, 2]);
  const unended = await fail({ fault: { kind: "end-early", withheldFrames: 1 } });
  assert.deepEqual(
    [
      partsOf(unended)
        .map(({ text }) => text)
        .join(""),
      finishOf(unended.at(-1)),
    ],
    ["a b c", undefined],
  );
  assert.ok(upstream.truth.every(({ ended, isClaimEmitted }) => ended === "cut" && !isClaimEmitted));
});

test("errors have the code, the words and the status of the provider", async () => {
  await using upstream = await startFakeUpstream();
  const statuses = { 400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE" };
  for (const [status, name] of Object.entries(statuses)) {
    upstream.scriptNext({ status: Number(status) });
    const response = await post(upstream);
    const { error } = (await response.json()) as Chunk;
    assert.deepEqual([response.status, error?.code, error?.status], [Number(status), Number(status), name]);
    assert.ok(error?.message);
  }
});

test("refused are a missing key, unknown names, no turns, other roles, and addresses that are none", async () => {
  await using upstream = await startFakeUpstream();
  const refusal = async (asking: Asking): Promise<string> => {
    const response = await post(upstream, asking);
    return `${response.status} ${JSON.stringify(await response.json())}`;
  };
  assert.match(await refusal({ headers: { authorization: "Bearer k" } }), /^403 .*PERMISSION_DENIED/);
  assert.match(await refusal({ body: { ...ask, model: "m" } }), /^400 .*Unknown name \\"model\\"/);
  assert.match(await refusal({ body: { ...ask, generationConfig: { max_tokens: 1 } } }), /generation_config/);
  assert.match(await refusal({ body: { contents: [] } }), /^400 .*contents is required/);
  assert.match(await refusal({ body: { contents: [{ role: "assistant", parts: [] }] } }), /valid role/);
  assert.match(await refusal({ method: "streamGenerateContent" }), /^404 /);
  assert.equal((await post(upstream, { body: { ...ask, generation_config: { top_k: 1 } } })).status, 200);
});

test("a model that insists refuses a call of this turn whose signature was lost, but no older one", async () => {
  await using upstream = await startFakeUpstream();
  const call = (signature?: string) => [
    {
      role: "model",
      parts: [
        { functionCall: { name: "now", args: {} }, ...(signature && { thoughtSignature: signature }) },
        { functionCall: { name: "now", args: {} } },
      ],
    },
    { role: "user", parts: [{ functionResponse: { name: "now", response: {} } }] },
  ];
  const statusOf = async (contents: object[], model = "gemini-3-pro"): Promise<number> =>
    (await post(upstream, { model, body: { contents } })).status;
  assert.equal(await statusOf([user("a"), ...call()]), 400);
  assert.equal(await statusOf([user("a"), ...call("c2ln")]), 200);
  assert.equal(await statusOf([user("a"), ...call(), user("b")]), 200);
  assert.equal(await statusOf([user("a"), ...call()], "gemini-2.5-pro"), 200);
});
