import assert from "node:assert/strict";
import { after, before, beforeEach, it } from "node:test";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

let world: World;
let reader: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  reader = await join(world, operator.browser, "acme", "viewer");
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => world.neighbours.videos.tasks.clear());

const path = "/accounts/acme/videos";

it("lists twenty at a time with state in words, progress, length, size and a shortened prompt", async () => {
  const { videos } = world.neighbours;
  for (let index = 0; index < 20; index += 1) videos.addTask("acme", { prompt: `number ${index}.` });
  videos.addTask("acme", {
    state: TaskState.IN_PROGRESS,
    progress: 40,
    seconds: 12,
    prompt: `${"a".repeat(80)}HIDDEN`,
  });
  const first = await reader.browser.get(path);
  checkPage(first, path);
  assert.match(first.text, /being made<\/td><td>40 %<\/td><td>12 s<\/td><td>1280x720<\/td><td>a{80}…</);
  assert.doesNotMatch(first.text, /HIDDEN|number 0\./);
  const next = /rel="next" href="([^"]+)"/.exec(first.text)?.[1]?.replaceAll("&#61;", "=") ?? "";
  const second = await reader.browser.get(next);
  assert.match(second.text, /number 0\./);
  assert.doesNotMatch(second.text, /number 1\.|Next page/);
});

it("shows one with its whole prompt, when it ended, and the way to its charge", async () => {
  const { videos } = world.neighbours;
  const prompt = `${"a".repeat(80)}END`;
  const completedAt = timestampFromDate(new Date("2026-11-20T10:05:00Z"));
  const taskId = videos.addTask("acme", { state: TaskState.COMPLETED, progress: 100, prompt, completedAt });
  const seen = await reader.browser.get(`${path}/${taskId}`);
  checkPage(seen, path);
  assert.match(seen.text, new RegExp(prompt));
  assert.match(seen.text, /<dt>State<\/dt><dd>done<\/dd>/);
  assert.match(
    seen.text,
    /<dt>Ended<\/dt><dd><time datetime="2026-11-20T10:05:00\.000Z" title="2026-11-20 10:05:00 UTC">/,
  );
  const rid = "0199f2a0-0000-7000-8000-000000000000";
  assert.match(seen.text, new RegExp(`href="/accounts/acme/calls/${rid}"`));
});

it("says why one failed, and that its price is given back", async () => {
  const error = { code: "content_policy_violation", message: "The prompt is not allowed." };
  const taskId = world.neighbours.videos.addTask("acme", { state: TaskState.FAILED, error });
  const { text } = await reader.browser.get(`${path}/${taskId}`);
  assert.match(text, /failed, the price is given back/);
  assert.match(text, /The prompt is not allowed\. \(content_policy_violation\)/);
});

it("a task of another account is not found, as if there were none", async () => {
  const foreign = world.neighbours.videos.addTask("other");
  const seen = await reader.browser.get(`${path}/${foreign}`);
  assert.equal(seen.status, 404);
  const unknown = await reader.browser.get(`${path}/video_${"0".repeat(32)}`);
  assert.equal(seen.text, unknown.text);
  assert.doesNotMatch((await reader.browser.get(path)).text, new RegExp(foreign));
  assert.equal((await reader.browser.get(`${path}?after=${foreign}`)).status, 404);
  for (const wrong of ["x", "video_1", `video_${"g".repeat(32)}`]) {
    assert.equal((await reader.browser.get(`${path}/${wrong}`)).status, 404);
    assert.equal((await reader.browser.get(`${path}?after=${wrong}`)).status, 404);
  }
});

it("prompts, models, sizes and errors with markup in them are shown as they are written", async () => {
  const wrong = `"><script>alert(1)</script>&amp;'`;
  const change = { prompt: wrong, model: wrong, size: wrong, error: { code: wrong, message: wrong } };
  const taskId = world.neighbours.videos.addTask("acme", change);
  for (const [page, count] of [
    [path, 3],
    [`${path}/${taskId}`, 5],
  ] as const) {
    const { text } = await reader.browser.get(page);
    assert.doesNotMatch(text, /<script>|&amp;/, page);
    assert.equal(text.match(/&#60;script&#62;alert\(1\)&#60;\/script&#62;&#38;amp;/g)?.length, count, page);
  }
});
