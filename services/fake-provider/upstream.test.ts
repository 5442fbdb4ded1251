import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { behaviourText, type Behaviour } from "./behaviour.ts";
import { readTruthFile } from "./truth.ts";
import { startFakeUpstream, type FakeUpstream } from "./upstream.ts";
import { until } from "../shared/testing/until.ts";

function chat(upstream: FakeUpstream, fields: object = {}, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${upstream.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer sk-test", "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "gpt-fake", messages: [{ role: "user", content: "one two three" }], ...fields }),
  });
}

const streamed = { stream: true, stream_options: { include_usage: true } };

/** What of a body arrives before it ends or breaks. */
async function readAll(response: Response): Promise<{ text: string; isBroken: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk as Uint8Array, { stream: true });
    return { text, isBroken: false };
  } catch {
    return { text, isBroken: true };
  }
}

async function streamUnder(upstream: FakeUpstream, behaviour: Behaviour): Promise<{ text: string; isBroken: boolean }> {
  upstream.scriptNext(behaviour);
  return readAll(await chat(upstream, streamed));
}

const contentChunks = (text: string): number => text.match(/"delta":\{"content":"[^"]/g)?.length ?? 0;

test("a request is recorded with headers, parsed body and its very bytes", async () => {
  await using upstream = await startFakeUpstream();
  const body = '{ "model":"gpt-fake", "messages":[] , "x":1.10}';
  await fetch(`${upstream.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer sk-test", "x-request-id": "rid-1" },
    body,
  });
  assert.equal(upstream.received[0]?.rawBody.toString(), body);
  assert.equal(upstream.received[0].headers["authorization"], "Bearer sk-test");
  assert.deepEqual(upstream.received[0].body, { model: "gpt-fake", messages: [], x: 1.1 });
  assert.equal(upstream.truth[0]?.rid, "rid-1");
});

test("the ring of received requests keeps only the newest", async () => {
  await using upstream = await startFakeUpstream({ receivedLimit: 2 });
  for (const user of ["a", "b", "c"]) await chat(upstream, { user }).then(readAll);
  assert.deepEqual(
    upstream.received.map(({ body }) => body?.["user"]),
    ["b", "c"],
  );
});

test("the request's own behaviour wins over scriptNext, that over script", async () => {
  await using upstream = await startFakeUpstream();
  upstream.script({ text: "standing", usage: { inputTokens: 5 }, gapMs: 1 });
  upstream.scriptNext({ text: "next", gapMs: 2 });
  const content = behaviourText({ text: "own" }, "ignored words");
  await chat(upstream, { messages: [{ role: "user", content }] }).then(readAll);
  assert.deepEqual(upstream.truth[0]?.behaviour, { text: "own", usage: { inputTokens: 5 }, gapMs: 2 });
  const second = (await (await chat(upstream)).json()) as { choices: { message: { content: string } }[] };
  assert.equal(second.choices[0]?.message.content, "standing");
});

test("a misspelt behaviour is refused aloud, not taken for none", async () => {
  await using upstream = await startFakeUpstream();
  const messages = [{ role: "user", content: '{"fake":{"gapMillis":3}}' }];
  const response = await chat(upstream, { messages });
  assert.equal(response.status, 500);
  assert.match(await response.text(), /gapMillis/);
  assert.throws(() => upstream.scriptNext({ gapMillis: 3 } as Behaviour), /gapMillis/);
});

test("usage is told in a stream only when asked for, and every earlier chunk then has usage null", async () => {
  await using upstream = await startFakeUpstream();
  const asked = await readAll(await chat(upstream, streamed));
  const records = asked.text.split("\n\n").filter((record) => record.startsWith("data: {"));
  const chunks = records.map((record) => JSON.parse(record.slice(6)) as { usage: unknown; choices: unknown[] });
  assert.ok(chunks.slice(0, -1).every(({ usage, choices }) => usage === null && choices.length === 1));
  assert.deepEqual(chunks.at(-1)?.choices, []);
  assert.ok(chunks.at(-1)?.usage);
  assert.ok(asked.text.endsWith("data: [DONE]\n\n"));
  const unasked = await readAll(await chat(upstream, { stream: true }));
  assert.doesNotMatch(unasked.text, /usage|"choices":\[\]/);
});

const cuts: [string, Behaviour, { isBroken: boolean; chunks: number }][] = [
  ["cut before any content", { fault: { kind: "cut" } }, { isBroken: true, chunks: 0 }],
  ["cut after three chunks", { fault: { kind: "cut", afterChunks: 3 } }, { isBroken: true, chunks: 3 }],
  ["cut after more chunks than there are", { fault: { kind: "cut", afterChunks: 99 } }, { isBroken: true, chunks: 8 }],
  ["reset after two chunks", { gapMs: 20, fault: { kind: "reset", afterChunks: 2 } }, { isBroken: true, chunks: 2 }],
  ["half a frame", { fault: { kind: "half-frame", afterChunks: 2 } }, { isBroken: true, chunks: 2 }],
  ["an early but clean end", { fault: { kind: "end-early", afterChunks: 4 } }, { isBroken: false, chunks: 4 }],
  ["all but the end mark", { fault: { kind: "cut", withheldFrames: 1 } }, { isBroken: true, chunks: 8 }],
];

for (const [name, behaviour, expected] of cuts) {
  test(`a stream ends by the fault: ${name}`, async () => {
    await using upstream = await startFakeUpstream();
    const { text, isBroken } = await streamUnder(upstream, behaviour);
    assert.deepEqual({ isBroken, chunks: contentChunks(text) }, expected);
    assert.doesNotMatch(text, /DONE/);
    const [truth] = upstream.truth;
    assert.deepEqual([truth?.ended, truth?.tokensEmitted], ["cut", expected.chunks]);
    assert.equal(truth?.isClaimEmitted, behaviour.fault?.withheldFrames === 1);
    assert.equal(text.endsWith("\n\n"), behaviour.fault?.kind !== "half-frame");
  });
}

test("an error within a stream comes as the provider's record, then the stream ends", async () => {
  await using upstream = await startFakeUpstream();
  const { text, isBroken } = await streamUnder(upstream, { fault: { kind: "error-event", afterChunks: 1 } });
  assert.equal(isBroken, false);
  assert.match(
    text,
    /data: \{"error":\{"message":"Overloaded","type":"server_error","param":null,"code":null\}\}\n\n$/,
  );
});

test("a stalled stream stays open until the caller goes, and the truth says so", async () => {
  await using upstream = await startFakeUpstream();
  upstream.scriptNext({ fault: { kind: "stall", afterChunks: 2 } });
  const response = await chat(upstream, streamed);
  await until("two chunks were emitted", () => upstream.truth[0]?.tokensEmitted === 2);
  assert.equal(upstream.truth[0]?.ended, "open");
  await response.body?.cancel();
  await until("the caller's leaving was noticed", () => upstream.truth[0]?.ended === "client-gone");
  assert.equal(upstream.truth[0].isClaimEmitted, false);
});

test("silence and a reset before the head leave the caller without an answer", async () => {
  await using upstream = await startFakeUpstream();
  upstream.scriptNext({ fault: { kind: "reset-before-headers" } }, { fault: { kind: "silence" } });
  await assert.rejects(chat(upstream));
  const leaving = new AbortController();
  const silent = fetch(`${upstream.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer sk-test" },
    body: '{"model":"m","messages":[]}',
    signal: leaving.signal,
  });
  await until("the silent request came", () => upstream.truth.length === 2);
  leaving.abort();
  await assert.rejects(silent);
  await until("both have ended", () => upstream.truth.every(({ ended }) => ended !== "open"));
  assert.deepEqual(
    upstream.truth.map(({ ended, status }) => [ended, status]),
    [
      ["cut", null],
      ["client-gone", null],
    ],
  );
});

test("a closed upstream refuses connections and answers again on the same port when reopened", async () => {
  await using upstream = await startFakeUpstream();
  await upstream.close();
  await assert.rejects(chat(upstream), (error: Error) => (error.cause as { code?: string }).code === "ECONNREFUSED");
  await upstream.reopen();
  assert.equal((await chat(upstream)).status, 200);
});

const oddities: [string, Behaviour["framing"]][] = [
  ["one byte at a time", { bytePieces: 1 }],
  ["several events in one write", { coalescedFrames: 4 }],
  ["CR LF", { isCrlf: true }],
  ["comments, no space, padding", { hasComments: true, isTight: true, isPadded: true }],
  ["obfuscation", { hasObfuscation: true }],
];

for (const [name, framing] of oddities) {
  test(`a stream framed oddly still says the same: ${name}`, async () => {
    await using upstream = await startFakeUpstream();
    const { text } = await streamUnder(upstream, { text: "Grüße, Welt \u{1F30D}!", framing: framing ?? {} });
    const said = [...text.matchAll(/"delta":\{"content":"([^"]*)"/g)].map(([, piece]) => piece).join("");
    assert.equal(said, "Grüße, Welt \u{1F30D}!");
    assert.equal(upstream.truth[0]?.tokensEmitted, 3);
    assert.equal(text.includes("\r\n\r\n"), framing?.isCrlf ?? false);
    assert.equal(text.includes("obfuscation"), framing?.hasObfuscation ?? false);
    assert.equal(text.includes(":keep-alive\ndata:{"), framing?.hasComments ?? false);
  });
}

test("gzip is used when scripted and accepted, whole and streamed", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { isGzip: true, text: "packed" } });
  for (const fields of [{}, streamed]) {
    const response = await chat(upstream, fields, { "accept-encoding": "gzip" });
    assert.equal(response.headers.get("content-encoding"), "gzip");
    assert.match((await readAll(response)).text, /packed/);
    const plain = await chat(upstream, fields, { "accept-encoding": "identity" });
    assert.equal(plain.headers.get("content-encoding"), null);
    await readAll(plain);
  }
  assert.ok(upstream.truth.every(({ ended, tokensEmitted }) => ended === "whole" && tokensEmitted === 1));
});

test("HTML instead of JSON comes with 200 or any other status", async () => {
  await using upstream = await startFakeUpstream();
  upstream.scriptNext({ isHtml: true }, { isHtml: true, status: 502 });
  for (const status of [200, 502]) {
    const response = await chat(upstream);
    assert.deepEqual([response.status, response.headers.get("content-type")], [status, "text/html"]);
    assert.match(await response.text(), /^<html>/);
  }
  assert.equal(upstream.truth[0]?.ended, "refused");
});

test("a huge answer arrives whole", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { textBytes: 3_000_000 } });
  const whole = (await (await chat(upstream)).json()) as { choices: { message: { content: string } }[] };
  assert.equal(whole.choices[0]?.message.content.length, 3_000_000);
  const { text } = await readAll(await chat(upstream, streamed));
  assert.ok(text.length > 3_000_000 && text.endsWith("[DONE]\n\n"));
});

test("a whole answer is cut in the middle of its body", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { fault: { kind: "cut" } } });
  const { text, isBroken } = await readAll(await chat(upstream));
  assert.ok(isBroken && text.length > 100);
  assert.equal(upstream.truth[0]?.tokensEmitted, 0);
});

test("an output limit shortens the answer and the finish reason says so", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { outputTokens: 50 } });
  const whole = (await (await chat(upstream, { max_completion_tokens: 4 })).json()) as {
    choices: { finish_reason: string }[];
    usage: { completion_tokens: number };
  };
  assert.deepEqual([whole.choices[0]?.finish_reason, whole.usage.completion_tokens], ["length", 4]);
});

test("the truth file has the last state of every request, also of those still open", async () => {
  const folder = await mkdtemp(join(tmpdir(), "fake-truth-"));
  const truthFile = join(folder, "truth.jsonl");
  try {
    await using upstream = await startFakeUpstream({ truthFile });
    upstream.scriptNext({ text: "a b" }, { fault: { kind: "stall", afterChunks: 1 } });
    await chat(upstream, streamed, { "x-request-id": "rid-a" }).then(readAll);
    const open = await chat(upstream, streamed, { "x-request-id": "rid-b" });
    await until("the chunk was emitted", () => upstream.truth[1]?.tokensEmitted === 1);
    assert.deepEqual(
      readTruthFile(truthFile).map(({ rid, ended, tokensEmitted }) => [rid, ended, tokensEmitted]),
      [
        ["rid-a", "whole", 2],
        ["rid-b", "open", 0],
      ],
    );
    await open.body?.cancel();
    await until("the end was written", () => readTruthFile(truthFile)[1]?.ended === "client-gone");
  } finally {
    await rm(folder, { recursive: true });
  }
});
