import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { toFile } from "openai";
import { behaviourText } from "./behaviour.ts";
import { silentWav } from "./sound.ts";
import { type FakeUpstream, startFakeUpstream } from "./upstream.ts";

const clientFor = (upstream: FakeUpstream): OpenAI =>
  new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: "sk-test", maxRetries: 0 });

async function gather<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of stream) found.push(one);
  return found;
}

test("embeddings: numbers or base64 as asked, of the same values; each text its own vector", async () => {
  await using upstream = await startFakeUpstream();
  const client = clientFor(upstream);
  const asked = { model: "embed-fake", input: ["one two", "three"], dimensions: 16 };
  const numbers = await client.embeddings.create({ ...asked, encoding_format: "float" });
  const decoded = await client.embeddings.create(asked);
  const base64 = await client.embeddings.create({ ...asked, encoding_format: "base64" });
  assert.equal(upstream.received[1]?.body?.["encoding_format"], "base64", "the client's own choice");
  assert.deepEqual(decoded.data[0]?.embedding.map(Math.fround), numbers.data[0]?.embedding);
  assert.equal(Buffer.from(String(base64.data[0]?.embedding), "base64").length, 16 * 4);
  assert.notDeepEqual(numbers.data[0]?.embedding, numbers.data[1]?.embedding);
  assert.deepEqual(numbers.usage, { prompt_tokens: 3, total_tokens: 3 });
  assert.deepEqual(
    numbers.data.map(({ index, object }) => [index, object]),
    [
      [0, "embedding"],
      [1, "embedding"],
    ],
  );
  assert.equal(upstream.truth[0]?.claim?.inputTokens, 3);
});

test("embeddings: 1,536 numbers when no size is asked for; token numbers count one each", async () => {
  await using upstream = await startFakeUpstream();
  const client = clientFor(upstream);
  const one = await client.embeddings.create({ model: "embed-fake", input: [1, 2, 3, 4] });
  assert.deepEqual([one.data.length, one.data[0]?.embedding.length, one.usage.prompt_tokens], [1, 1_536, 4]);
  const two = await client.embeddings.create({ model: "embed-fake", input: [[1, 2], [3]] });
  assert.deepEqual([two.data.length, two.usage.prompt_tokens], [2, 3]);
});

test("completions: whole and streamed say the same, n and echo included; usage when asked for", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: " and so on" } });
  const asked = { model: "old-fake", prompt: "Once upon", n: 2, echo: true };
  const whole = await clientFor(upstream).completions.create(asked);
  assert.deepEqual(
    whole.choices.map(({ index, text, finish_reason: reason }) => [index, text, reason]),
    [
      [0, "Once upon and so on", "stop"],
      [1, "Once upon and so on", "stop"],
    ],
  );
  assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens], [2, 6]);
  const options = { stream: true as const, stream_options: { include_usage: true } };
  const chunks = await gather(await clientFor(upstream).completions.create({ ...asked, ...options }));
  const said = chunks.flatMap(({ choices }) => choices.filter(({ index }) => index === 1).map(({ text }) => text));
  assert.equal(said.join(""), "Once upon and so on");
  assert.deepEqual([chunks.at(-1)?.choices, chunks.at(-1)?.usage?.completion_tokens], [[], 6]);
  assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null));
  const unasked = await gather(await clientFor(upstream).completions.create({ ...asked, stream: true }));
  assert.ok(unasked.every((chunk) => !("usage" in chunk)));
});

test("completions: an output limit ends with length, several prompts have a choice each", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "old-fake", prompt: ["a", "b"], echo: true, max_tokens: 1 };
  const { choices } = await clientFor(upstream).completions.create(asked);
  assert.deepEqual(
    choices.map(({ text, finish_reason: reason }) => [text, reason]),
    [
      ["aword1", "length"],
      ["bword1", "length"],
    ],
  );
});

test("images: gpt-image gives pictures and counts tokens by size and quality", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "gpt-image-fake", prompt: "a red fox", n: 2, size: "1024x1536", quality: "high" } as const;
  const whole = await clientFor(upstream).images.generate(asked);
  const [first, second] = whole.data ?? [];
  assert.match(Buffer.from(first?.b64_json ?? "", "base64").toString("latin1"), /^\x89PNG/);
  assert.notEqual(first?.b64_json, second?.b64_json);
  assert.deepEqual([whole.usage?.input_tokens, whole.usage?.output_tokens], [3, 2 * 6_240]);
  assert.deepEqual(whole.usage?.input_tokens_details, { image_tokens: 0, text_tokens: 3 });
  assert.deepEqual([whole.size, whole.quality, whole.output_format], ["1024x1536", "high", "png"]);
  assert.equal(upstream.truth[0]?.claim?.imageOutputTokens, 12_480);
  const misplaced = clientFor(upstream).images.generate({ ...asked, response_format: "url" });
  await assert.rejects(misplaced, OpenAI.BadRequestError);
});

test("images: partial pictures stream before the finished one, each costs 100 tokens more", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "gpt-image-fake", prompt: "a red fox", stream: true, partial_images: 2 } as const;
  const events = await gather(await clientFor(upstream).images.generate({ ...asked, quality: "low" }));
  assert.deepEqual(
    events.map(({ type }) => type.replace("image_generation.", "")),
    ["partial_image", "partial_image", "completed"],
  );
  const last = events.at(-1);
  assert.ok(last?.type === "image_generation.completed");
  assert.deepEqual([last.usage.output_tokens, upstream.truth[0]?.tokensEmitted], [472, 472]);
});

test("images: each of many that stream tells its own output, and the input of all", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "gpt-image-fake", prompt: "a red fox", stream: true, partial_images: 1, n: 2 } as const;
  const events = await gather(await clientFor(upstream).images.generate({ ...asked, quality: "low" }));
  const told = events.map((event) => event.type === "image_generation.completed" && event.usage.output_tokens);
  assert.deepEqual(told, [false, 372, false, 372]);
});

test("images: dall-e gives addresses or pictures and tells no use", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "dall-e-3", prompt: "a red fox" };
  const byAddress = await clientFor(upstream).images.generate(asked);
  assert.match(byAddress.data?.[0]?.url ?? "", /^https:.*\.png$/);
  assert.equal(byAddress.usage, undefined);
  const inline = await clientFor(upstream).images.generate({ ...asked, response_format: "b64_json" });
  assert.ok(inline.data?.[0]?.b64_json);
  assert.equal(upstream.truth[0]?.claim, null);
});

test("speech: bytes of the format asked for, in pieces, without use", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "tts-1", voice: "alloy", input: "one two three" };
  const types: Record<string, RegExp> = { mp3: /^\xff\xfb/, wav: /^RIFF.{4}WAVE/s, opus: /^OggS/, flac: /^fLaC/ };
  for (const [format, magic] of Object.entries(types)) {
    const spoken = await clientFor(upstream).audio.speech.create({ ...asked, response_format: format as "mp3" });
    assert.equal(spoken.headers.get("content-type"), format === "mp3" ? "audio/mpeg" : `audio/${format}`);
    assert.match(Buffer.from(await spoken.arrayBuffer()).toString("latin1"), magic);
  }
  assert.deepEqual([upstream.truth[0]?.claim, upstream.truth[0]?.tokensEmitted], [null, 6]);
});

test("speech: as events, the same bytes in base64 and the use at the end", async () => {
  await using upstream = await startFakeUpstream();
  const asked = { model: "gpt-tts-fake", voice: "alloy", input: "one two three" };
  const plain = await (await clientFor(upstream).audio.speech.create(asked)).arrayBuffer();
  const events = await (await clientFor(upstream).audio.speech.create({ ...asked, stream_format: "sse" })).text();
  const records = [...events.matchAll(/^data: (.*)$/gm)].map(
    ([, data]) => JSON.parse(data ?? "") as { type: string; audio?: string; usage?: object },
  );
  const sound = records.flatMap(({ audio }) => (audio ? [Buffer.from(audio, "base64")] : []));
  assert.deepEqual(Buffer.concat(sound), Buffer.from(plain));
  assert.deepEqual(records.at(-1), {
    type: "speech.audio.done",
    usage: { input_tokens: 3, output_tokens: 6, total_tokens: 9 },
  });
  assert.equal(upstream.truth[1]?.claim?.audioOutputTokens, 6);
});

test("moderations: one result for each text, flagged when it names a category", async () => {
  await using upstream = await startFakeUpstream();
  const input = ["a song", "some violence"];
  const { results } = await clientFor(upstream).moderations.create({ model: "omni-fake", input });
  assert.deepEqual(
    results.map(({ flagged, categories }) => [flagged, categories.violence, categories.hate]),
    [
      [false, false, false],
      [true, true, false],
    ],
  );
  const parts = [{ type: "text" as const, text: "hate" }];
  const joined = await clientFor(upstream).moderations.create({ model: "omni-fake", input: parts });
  assert.deepEqual([joined.results.length, joined.results[0]?.categories.hate], [1, true]);
});

test("transcriptions: a word for every second heard, billed by duration or by tokens", async () => {
  await using upstream = await startFakeUpstream();
  const client = clientFor(upstream);
  const wav = await toFile(silentWav(2_500), "speech.wav", { type: "audio/wav" });
  const byDuration = await client.audio.transcriptions.create({ file: wav, model: "whisper-1" });
  assert.deepEqual([byDuration.text, byDuration.usage], ["word1 word2 word3", { type: "duration", seconds: 3 }]);
  const file = upstream.received[0]?.body?.["file"] as { name: string; bytes: Buffer } | undefined;
  assert.deepEqual([file?.name, file?.bytes.length], ["speech.wav", 44 + 120_000]);
  const byTokens = await client.audio.transcriptions.create({ file: wav, model: "gpt-fake", prompt: "a b" });
  assert.deepEqual(byTokens.usage, {
    type: "tokens",
    input_tokens: 32,
    input_token_details: { text_tokens: 2, audio_tokens: 30 },
    output_tokens: 3,
    total_tokens: 35,
  });
  const verbose = { response_format: "verbose_json" as const };
  const told = await client.audio.transcriptions.create({ file: wav, model: "whisper-1", ...verbose });
  assert.deepEqual([told.duration, told.segments?.length, told.usage?.seconds], [3, 1, 3]);
  assert.deepEqual(
    upstream.truth.map(({ claim }) => [claim?.mediaMs, claim?.audioInputTokens]),
    [
      [3_000, undefined],
      [undefined, 30],
      [3_000, undefined],
    ],
  );
});

test("transcriptions: as text and subtitles without use, as a stream with it; scripted by the prompt", async () => {
  await using upstream = await startFakeUpstream();
  const client = clientFor(upstream);
  const asked = {
    file: await toFile(silentWav(1_000), "speech.wav", { type: "audio/wav" }),
    model: "gpt-fake",
    prompt: behaviourText({ text: "I heard you." }),
  };
  assert.equal(await client.audio.transcriptions.create({ ...asked, response_format: "text" }), "I heard you.\n");
  const subtitles = await client.audio.transcriptions.create({ ...asked, response_format: "srt" });
  assert.equal(subtitles, "1\n00:00:00,000 --> 00:00:01,000\nI heard you.\n\n");
  const events = await gather(await client.audio.transcriptions.create({ ...asked, stream: true }));
  assert.deepEqual(
    events.map((event) => (event.type === "transcript.text.delta" ? event.delta : event.type)),
    ["I", " heard", " you.", "transcript.text.done"],
  );
  const last = events.at(-1);
  assert.equal(last?.type === "transcript.text.done" && last.usage?.output_tokens, 3);
});

test("what the providers require is required: 400 names the field; a form is no JSON", async () => {
  await using upstream = await startFakeUpstream();
  const post = (path: string, body: string): Promise<Response> =>
    fetch(`${upstream.url}/v1/${path}`, { method: "POST", headers: { authorization: "Bearer sk-test" }, body });
  for (const [path, field] of [
    ["responses", "model"],
    ["embeddings", "model"],
    ["completions", "model"],
    ["images/generations", "prompt"],
    ["audio/speech", "model"],
    ["moderations", "input"],
    ["audio/transcriptions", "model"],
  ] as const) {
    const refused = await post(path, "{}");
    assert.equal(refused.status, 400, path);
    assert.match(await refused.text(), new RegExp(`Missing required parameter: '${field}'`));
  }
});
