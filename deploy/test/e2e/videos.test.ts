import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { videoFileBytes } from "#fake-provider/videos-file.ts";
import { ask, chat } from "./ask.ts";
import { videoCatalog } from "./video-catalog.ts";
import {
  type Caller,
  checkVideoMoney,
  checkVideoRefusal,
  createVideoCustomer,
  deleteVideo,
  getFile,
  getVideo,
  makeVideo,
  onlyJob,
  submitVideo,
  untilEnded,
  type VideoObject,
  videoOf,
  videoRows,
} from "./videos.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(videoCatalog);

/** What a caller asks for at each provider: a length and a size that are not the first ones of the model. */
const providers = [
  { model: "sora-model", api: "openai", upstream: "sora", seconds: 8, size: "1792x1024" },
  { model: "veo-model", api: "gemini", upstream: "veo", seconds: 6, size: "720x1280" },
] as const;

describe("a video from its submission to its file", () => {
  for (const { model, api, upstream, seconds, size } of providers) {
    test(`API spec, Endpoints: \`POST /v1/videos\` | A | Submit a video generation task; API spec, Resources and their fields: **Video task.** Created by \`POST /v1/videos\` (${model})`, async () => {
      const customer = await createVideoCustomer(world);
      const before = Math.floor(Date.now() / 1_000);
      const reply = await submitVideo(customer, { model, more: { seconds: String(seconds), size } });
      const { id, created_at: createdAt, prompt, ...rest } = videoOf(reply);
      assert.equal(id, `video_${reply.rid.replaceAll("-", "")}`);
      assert.ok(createdAt >= before && createdAt <= Date.now() / 1_000);
      assert.deepEqual(rest, {
        object: "video",
        model,
        status: "queued",
        progress: 0,
        completed_at: null,
        expires_at: null,
        error: null,
        seconds: String(seconds),
        size,
        remixed_from_video_id: null,
      });
      const job = onlyJob(world, reply.rid);
      const asked = { api, model: `${upstream}-fake`, prompt, seconds, size, hasReference: false };
      assert.deepEqual({ ...asked, ...job }, { ...job, ...asked });
      const { usage } = await world.untilBooked(customer.accountId, reply.rid);
      assert.deepEqual([usage.upstream, usage.modelServed], [upstream, `${upstream}-fake`]);
      await checkVideoMoney(world, customer, { rid: reply.rid, charged: { model, seconds, size } });
    });

    test(`API spec, Endpoints: \`GET /v1/videos/{task_id}\` | A | Progress of a task, which only goes forward; API spec, Events: Video progress is obtained by polling \`GET /v1/videos/{task_id}\`; API spec, Resources and their fields: **Video task.** addressed by a task ID (a string path segment); the values \`completed\` and \`failed\` are used (${model})`, async () => {
      const customer = await createVideoCustomer(world);
      const submitted = videoOf(await submitVideo(customer, { model, behaviour: { polls: 6, backwards: true } }));
      const seen = [submitted];
      for (let last = submitted; last.status === "queued" || last.status === "in_progress";) {
        last = videoOf(await getVideo(customer, submitted.id));
        seen.push(last);
      }
      const states = ["queued", "in_progress", "completed"];
      const steps = seen.map(({ status, progress }) => [states.indexOf(status), progress]);
      const isForward = steps.every(([state = 0, progress = 0], index) => {
        const [stateBefore = 0, progressBefore = 0] = steps[index - 1] ?? [];
        return state >= stateBefore && progress >= progressBefore;
      });
      assert.ok(isForward, JSON.stringify(steps));
      const { completed_at: completedAt, ...ended } = seen.at(-1) ?? submitted;
      assert.deepEqual([ended.status, ended.progress, ended.error], ["completed", 100, null]);
      assert.ok(completedAt !== null && completedAt >= submitted.created_at);
      const failed = await makeVideo(world, customer, { model, behaviour: { end: "failed" } });
      assert.equal(videoOf(await getVideo(customer, failed.ended.id)).status, "failed");
    });

    test(`API spec, Endpoints: \`GET /v1/videos/{task_id}/content\` | A | Download the finished video file; API spec, States and transitions: \`completed\` | Content download is allowed (${model})`, async () => {
      const customer = await createVideoCustomer(world);
      const { ended, job } = await makeVideo(world, customer, { model, behaviour: { bytes: 300_001 } });
      assert.equal(ended.status, "completed");
      const { status, headers, bytes } = await getFile(customer, ended.id);
      assert.deepEqual([status, headers.get("content-type"), bytes.length], [200, "video/mp4", 300_001]);
      assert.equal(headers.get("content-length"), "300001");
      assert.ok(bytes.equals(videoFileBytes(job, "video", { from: 0, to: 300_001 })), "the provider's bytes");
    });
  }

  test("without a length and a size the model's first ones are made and charged", async () => {
    const customer = await createVideoCustomer(world);
    for (const [model, seconds, size] of [
      ["sora-model", 4, "720x1280"],
      ["veo-model", 8, "1280x720"],
    ] as const) {
      const { rid, ended, job } = await makeVideo(world, customer, { model });
      assert.deepEqual([ended.seconds, ended.size, job.seconds, job.size], [String(seconds), size, seconds, size]);
      await checkVideoMoney(world, customer, { rid, charged: { model, seconds, size } });
    }
  });

  test("a second place takes the video where nobody listens at the first; it is charged once", async () => {
    const customer = await createVideoCustomer(world);
    const { rid } = await makeVideo(world, customer, { model: "spare-sora-model" });
    await checkVideoMoney(world, customer, { rid, charged: { model: "spare-sora-model", seconds: 4 } });
  });
});

describe("the videos of an account", () => {
  test("are listed page by page, newest or oldest first, and a deleted one is there no more", async () => {
    const customer = await createVideoCustomer(world);
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) ids.push((await makeVideo(world, customer)).ended.id);
    const page = async (query: string) => {
      const reply = await getVideo(customer, query);
      assert.equal(reply.status, 200, reply.text);
      const { data, ...rest } = reply.json() as { data: VideoObject[] };
      return { ids: data.map(({ id }) => id), data, rest };
    };
    const all = await page("?");
    assert.deepEqual(all.ids, ids.toReversed());
    const [newest, oldest] = [ids.at(-1), ids[0]];
    assert.deepEqual(all.rest, { object: "list", has_more: false, first_id: newest, last_id: oldest });
    assert.deepEqual(all.data[0], videoOf(await getVideo(customer, newest ?? "")));
    const first = await page("?limit=2&order=asc");
    assert.deepEqual([first.ids, first.rest["has_more" as never]], [ids.slice(0, 2), true]);
    assert.deepEqual((await page(`?limit=3&order=asc&after=${ids[1]}`)).ids, ids.slice(2));

    const [gone = "", ...kept] = ids;
    const deleted = await deleteVideo(customer, gone);
    assert.deepEqual([deleted.status, deleted.json()], [200, { id: gone, object: "video.deleted", deleted: true }]);
    assert.deepEqual((await page("?order=asc")).ids, kept);
    checkVideoRefusal(await getVideo(customer, gone), videoRows.notFound);
    checkVideoRefusal(await getVideo(customer, `${gone}/content`), videoRows.fileNotFound);
    checkVideoRefusal(await deleteVideo(customer, gone), videoRows.notFound);
  });

  test("one that runs cannot be deleted, and goes on", async () => {
    const customer = await createVideoCustomer(world);
    const { id } = videoOf(await submitVideo(customer, { behaviour: { polls: 10 } }));
    checkVideoRefusal(await deleteVideo(customer, id), videoRows.notReady);
    assert.equal((await untilEnded(customer, id)).status, "completed");
  });

  test("are found by every key of the account and by no other account", async () => {
    const [owner, stranger] = [await createVideoCustomer(world), await createVideoCustomer(world)];
    const { ended } = await makeVideo(world, owner);
    const colleague = { ...owner, ...(await world.createKey(owner.accountId)) };
    assert.equal(videoOf(await getVideo(colleague, ended.id)).id, ended.id);
    assert.equal((await getFile(colleague, ended.id)).status, 200);
    assert.deepEqual((await getVideo(stranger, "?")).json()["data"], []);
  });

  const questions = {
    progress: getVideo,
    deletion: deleteVideo,
    file: (caller: Caller, id: string) => getVideo(caller, `${id}/content`),
  };
  for (const [what, question] of Object.entries(questions)) {
    const told = `${what === "file" ? "404 when downloading the file" : "400 ("}, \`task_not_found\` | \`Task not found\``;
    test(`API spec, Video generation errors: Wrong task ID or another account's task | ${told}: its ${what}`, async () => {
      const [owner, stranger] = [await createVideoCustomer(world), await createVideoCustomer(world)];
      const { ended } = await makeVideo(world, owner);
      const wanted = what === "file" ? videoRows.fileNotFound : videoRows.notFound;
      const wrong = ["video_", "x", `${ended.id}0`, ended.id.toUpperCase(), `video_${"0".repeat(32)}`, "video_%00"];
      for (const id of [ended.id, ...wrong]) checkVideoRefusal(await question(stranger, id), wanted);
      assert.equal(videoOf(await getVideo(owner, ended.id)).status, "completed", "it is still the owner's");
    });
  }
});

test("what other services make of videos is not served: remix, edits, extensions, characters", async () => {
  const customer = await createVideoCustomer(world);
  const { ended } = await makeVideo(world, customer);
  for (const place of [`${ended.id}/remix`, "edits", "extensions", "characters"]) {
    const url = `/v1/videos/${place}`;
    const reply = await ask(`${world.relayUrl}${url}`, { headers: chat.headers(customer.secret), body: "{}" });
    checkVideoRefusal(reply, { status: 404, message: `Invalid URL (POST ${url})`, code: "" });
  }
});
