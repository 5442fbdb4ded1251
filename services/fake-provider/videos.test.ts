import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import OpenAI, { APIError, toFile } from "openai";
import { startFakeVideos } from "./videos.ts";
import { type VideoBehaviour, videoPrompt } from "./videos-behaviour.ts";
import { videoFileBytes } from "./videos-file.ts";
import { readVideoTruthFile } from "./videos-jobs.ts";

const clientFor = ({ url }: { url: string }): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-test", maxRetries: 0 });

const asked = { model: "sora-fake", seconds: "8", size: "1280x720" } as const;
const bearer = { authorization: "Bearer sk-test" };
const key = { "x-goog-api-key": "key-test" };

const bytesOf = async (answer: Response): Promise<Buffer> => Buffer.from(await answer.arrayBuffer());

describe("the official client of OpenAI", () => {
  test("creates, polls and downloads; every poll finds the task further on, and its truth is kept", async () => {
    await using fake = await startFakeVideos();
    const client = clientFor(fake);
    const reference = await toFile(Buffer.from("picture"), "first.png", { type: "image/png" });
    const prompt = videoPrompt({ polls: 2, bytes: 200_000 });
    const headers = { "x-request-id": "rid-1" };
    const created = await client.videos.create({ ...asked, prompt, input_reference: reference }, { headers });
    assert.deepEqual([created.object, created.status, created.progress, created.error], ["video", "queued", 0, null]);
    // Lines of a form's text end in CRLF, as the HTML standard has it.
    const shown = [created.model, created.prompt?.replace("\r\n", "\n"), created.seconds, created.size];
    assert.deepEqual(shown, [asked.model, prompt, "8", asked.size]);
    assert.match(String(fake.received[0]?.headers["content-type"]), /^multipart\/form-data/);

    const polls = [];
    for (let poll = 0; poll < 3; poll += 1) polls.push(await client.videos.retrieve(created.id));
    assert.deepEqual(
      polls.map(({ status, progress }) => [status, progress]),
      [
        ["queued", 0],
        ["in_progress", 66],
        ["completed", 100],
      ],
    );
    const file = await bytesOf(await client.videos.downloadContent(created.id));
    const [job] = fake.jobs;
    assert.ok(job);
    assert.deepEqual(file, videoFileBytes(job, "video", { from: 0, to: 200_000 }));
    assert.equal(file.toString("latin1", 4, 8), "ftyp");
    const told = [job.id, job.api, job.model, job.seconds, job.size, job.hasReference, job.rid, job.attempt];
    assert.deepEqual(told, [created.id, "openai", asked.model, 8, asked.size, true, "rid-1", 1]);
    assert.deepEqual([job.polls, job.end, job.downloads, job.leaks], [3, "completed", 1, 0]);
  });

  test("thumbnail and spritesheet are pictures of their own", async () => {
    await using fake = await startFakeVideos({ behaviour: { polls: 0 } });
    const client = clientFor(fake);
    const { id } = await client.videos.create({ ...asked, prompt: "a tide pool" });
    await client.videos.retrieve(id);
    const thumbnail = await client.videos.downloadContent(id, { variant: "thumbnail" });
    const sheet = await client.videos.downloadContent(id, { variant: "spritesheet" });
    assert.deepEqual(
      [thumbnail, sheet].map(({ headers }) => headers.get("content-type")),
      ["image/webp", "image/jpeg"],
    );
    assert.equal((await bytesOf(thumbnail)).toString("latin1", 8, 12), "WEBP");
    assert.deepEqual((await bytesOf(sheet)).subarray(0, 3), Buffer.from([0xff, 0xd8, 0xff]));
  });

  const ends: [VideoBehaviour, string | undefined][] = [
    [{ end: "failed" }, "video_generation_failed"],
    [{ end: "failed", failureCode: "no_gpu" }, "no_gpu"],
    [{ end: "filtered" }, "moderation_blocked"],
  ];
  for (const [behaviour, code] of ends) {
    test(`${JSON.stringify(behaviour)} fails with ${code}`, async () => {
      await using fake = await startFakeVideos({ behaviour: { polls: 0 } });
      const client = clientFor(fake);
      const { id } = await client.videos.create({ ...asked, prompt: videoPrompt(behaviour) });
      const { status, error } = await client.videos.retrieve(id);
      assert.deepEqual([status, error?.code], ["failed", code]);
      await assert.rejects(client.videos.downloadContent(id), APIError);
      assert.equal(fake.jobs[0]?.end, "failed");
    });
  }

  const refused: [VideoBehaviour["submit"], number | undefined, number][] = [
    ["reject", 400, 0],
    ["account", 401, 0],
    ["rate", 429, 0],
    ["unavailable", 503, 0],
    ["error", 500, 0],
    ["cut", undefined, 0],
    ["accept-then-cut", undefined, 1],
  ];
  for (const [submit, status, taken] of refused) {
    test(`a submission that ends in ${submit}: status ${status}, tasks taken: ${taken}`, async () => {
      await using fake = await startFakeVideos({ behaviour: { submit: submit ?? "accept" } });
      const creation = clientFor(fake).videos.create({ ...asked, prompt: "a tide pool" });
      await assert.rejects(creation, (error) => error instanceof APIError && error.status === status);
      assert.deepEqual([fake.jobs.length, fake.received.length], [taken, 1]);
    });
  }
});

test("behaviour: faults before the polls, backwards, lost, longer or shorter than asked", async () => {
  await using fake = await startFakeVideos();
  const post = async (behaviour: VideoBehaviour): Promise<string> => {
    const body = JSON.stringify({ prompt: videoPrompt(behaviour) });
    const answer = await fetch(`${fake.url}/v1/videos`, { method: "POST", headers: bearer, body });
    return ((await answer.json()) as { id: string }).id;
  };
  const poll = async (id: string): Promise<unknown[]> => {
    const answer = await fetch(`${fake.url}/v1/videos/${id}`, { headers: bearer });
    const { status, seconds } = (await answer.json()) as { status?: string; seconds?: string };
    return [answer.status, status, seconds];
  };
  const faulty = await post({ pollFaults: [500, 0], polls: 0, deliveredSeconds: 3 });
  assert.equal((await poll(faulty))[0], 500);
  await assert.rejects(poll(faulty));
  assert.deepEqual(await poll(faulty), [200, "completed", "3"]);
  const backwards = await post({ backwards: true, polls: 3 });
  const seen = [await poll(backwards), await poll(backwards), await poll(backwards)];
  assert.deepEqual(
    seen.map(([, status]) => status),
    ["in_progress", "queued", "in_progress"],
  );
  const lost = await post({ lost: true });
  assert.equal((await poll(lost))[0], 404);
  const never = await post({ end: "never" });
  await poll(never);
  assert.deepEqual(await poll(never), [200, "in_progress", "4"]);
  fake.script({ end: "failed" });
  assert.equal((await poll(faulty))[1], "completed", "what has ended stays so");
});

test("files: a range, one that is outside, a range of another file, and redirects to the own and another origin", async () => {
  await using fake = await startFakeVideos({ behaviour: { polls: 0, bytes: 1_000 } });
  const { id } = await clientFor(fake).videos.create({ ...asked, prompt: "a tide pool" });
  await clientFor(fake).videos.retrieve(id);
  const [job] = fake.jobs;
  assert.ok(job);
  const get = (headers: Record<string, string>, redirect: "manual" | "follow" = "manual"): Promise<Response> =>
    fetch(`${fake.url}/v1/videos/${id}/content`, { redirect, headers: { ...bearer, ...headers } });
  const part = await get({ range: "bytes=100-299" });
  assert.deepEqual([part.status, part.headers.get("content-range")], [206, "bytes 100-299/1000"]);
  assert.deepEqual(await bytesOf(part), videoFileBytes(job, "video", { from: 100, to: 300 }));
  const end = await get({ range: "bytes=-10", "if-range": String(part.headers.get("etag")) });
  assert.deepEqual(await bytesOf(end), videoFileBytes(job, "video", { from: 990, to: 1_000 }));
  const outside = await get({ range: "bytes=1000-" });
  assert.deepEqual([outside.status, outside.headers.get("content-range")], [416, "bytes */1000"]);
  assert.equal((await get({ range: "bytes=0-9", "if-range": '"other"' })).status, 200);
  fake.script({ redirect: "own", bytes: 1_000 });
  assert.equal((await get({})).status, 302);
  assert.equal((await bytesOf(await get({}, "follow"))).length, 1_000);
  fake.script({ redirect: "other", bytes: 1_000 });
  const location = String((await get({})).headers.get("location"));
  assert.notEqual(new URL(location).origin, fake.url);
  assert.equal((await bytesOf(await fetch(location))).length, 1_000);
  assert.equal(job.leaks, 0);
  assert.equal((await fetch(location, { headers: bearer })).status, 400);
  assert.equal(job.leaks, 1);
  fake.script({ goneAfter: true });
  assert.equal((await get({})).status, 404);
});

test("Gemini: an operation, its end with an address that wants the key, its failures; what is not Veo's is refused", async () => {
  await using fake = await startFakeVideos({ behaviour: { bytes: 500 } });
  const submit = async (behaviour: VideoBehaviour, parameters: object = {}): Promise<Response> => {
    const instances = [{ prompt: videoPrompt(behaviour) }];
    const body = JSON.stringify({ instances, parameters: { durationSeconds: 6, aspectRatio: "9:16", ...parameters } });
    const headers = { ...key, "x-request-id": "rid-2", "content-type": "application/json" };
    return fetch(`${fake.url}/v1beta/models/veo-fake:predictLongRunning`, { method: "POST", headers, body });
  };
  const nameOf = async (answer: Response): Promise<string> => ((await answer.json()) as { name: string }).name;
  const poll = async (name: string): Promise<object> => {
    const answer = await fetch(`${fake.url}/v1beta/${name}`, { headers: key });
    return (await answer.json()) as object;
  };
  const name = await nameOf(await submit({}));
  assert.match(name, /^models\/veo-fake\/operations\/\w+$/);
  assert.deepEqual(await poll(name), { name });
  const done = JSON.stringify(await poll(name));
  const [uri = ""] = /http:[^"]+/.exec(done) ?? [];
  assert.match(uri, /\/v1beta\/files\/[\w-]+:download\?alt=media$/);
  assert.equal((await fetch(uri)).status, 401);
  assert.equal((await bytesOf(await fetch(uri, { headers: key }))).length, 500);
  assert.deepEqual([fake.jobs[0]?.size, fake.jobs[0]?.seconds, fake.jobs[0]?.rid], ["720x1280", 6, "rid-2"]);
  fake.script({ redirect: "own", bytes: 500 });
  assert.equal((await bytesOf(await fetch(uri, { headers: key }))).length, 500);
  const failed = await nameOf(await submit({ end: "failed", failureCode: "UNAVAILABLE", polls: 0 }));
  assert.match(JSON.stringify(await poll(failed)), /"done":true,"error":{"code":14,/);
  const filtered = await nameOf(await submit({ end: "filtered", polls: 0 }));
  assert.match(JSON.stringify(await poll(filtered)), /"raiMediaFilteredCount":1/);
  assert.equal((await submit({}, { durationSeconds: "6" })).status, 400);
  assert.equal((await submit({}, { aspectRatio: "1:1" })).status, 400);
  assert.deepEqual(
    fake.jobs.map(({ attempt }) => attempt),
    [1, 2, 3],
    "submitted again under one rid",
  );
});

test("no credential is 401; a field as the provider does not take it is 400, and so is a behaviour that is none 500", async () => {
  await using fake = await startFakeVideos();
  const post = async (body: object, headers: Record<string, string> = bearer): Promise<number> => {
    const answer = await fetch(`${fake.url}/v1/videos`, { method: "POST", headers, body: JSON.stringify(body) });
    return answer.status;
  };
  assert.equal(await post({ prompt: "x" }, {}), 401);
  assert.equal(await post({}), 400);
  assert.equal(await post({ prompt: "x", seconds: 4 }), 400);
  assert.equal(await post({ prompt: "x", size: "big" }), 400);
  assert.equal(await post({ prompt: '{"video":{"pols":1}}' }), 500);
  assert.equal(await post({ prompt: "x", seconds: "12", size: "720x1280", input_reference: { file_id: "f" } }), 200);
  assert.equal((await fetch(`${fake.url}/v1/other`)).status, 404);
});

test("the truth stands in a file at once; the fake closes, opens again and knows its tasks", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fake-videos-"));
  try {
    const truthFile = join(folder, "truth.jsonl");
    await using fake = await startFakeVideos({ truthFile });
    const { id } = await clientFor(fake).videos.create({ ...asked, prompt: "x" }, { headers: { "x-request-id": "r" } });
    assert.deepEqual(
      readVideoTruthFile(truthFile).map(({ polls, rid }) => [polls, rid]),
      [[0, "r"]],
    );
    await fake.close();
    await assert.rejects(clientFor(fake).videos.retrieve(id));
    await fake.reopen();
    await clientFor(fake).videos.retrieve(id);
    assert.deepEqual(readVideoTruthFile(truthFile).map(({ polls }) => polls)[0], 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
