import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { videoFileBytes } from "#fake-provider/videos-file.ts";
import { rows } from "./refusal.ts";
import { videoCatalog, videoCost } from "./video-catalog.ts";
import {
  checkVideoMoney,
  checkVideoRefusal,
  createVideoCustomer,
  deleteVideo,
  getFile,
  getVideo,
  makeVideo,
  submitVideo,
  untilEnded,
  videoOf,
  videoRows,
} from "./videos.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(videoCatalog);

test("a key whose limit its video has used up fetches and deletes it, and makes no other; a stopped one does nothing", async () => {
  const price = videoCost({ model: "sora-model", seconds: 8 });
  const customer = await createVideoCustomer(world, { key: { limitNanos: price } });
  const { rid, ended } = await makeVideo(world, customer, { more: { seconds: "8" } });
  await checkVideoMoney(world, customer, { rid, charged: { model: "sora-model", seconds: 8 } });
  checkVideoRefusal(await submitVideo(customer), rows.keyInvalid);
  assert.equal((await getFile(customer, ended.id)).status, 200);
  const { authQuota } = world;
  const { keyId } = customer;
  await authQuota.updateKey({ keyId, status: KeyStatus.STOPPED });
  for (const place of [ended.id, `${ended.id}/content`])
    checkVideoRefusal(await getVideo(customer, place), rows.keyInvalid);
  checkVideoRefusal(await deleteVideo(customer, ended.id), rows.keyInvalid);
  await authQuota.updateKey({ keyId, status: KeyStatus.ACTIVE });
  assert.equal((await deleteVideo(customer, ended.id)).status, 200);
});

const models = ["sora-model", "veo-model"];
const size = 200_003;

for (const model of models) {
  describe(`the file of a video (${model})`, () => {
    test("a part is asked for by its range, of the same file only, and never beyond its end", async () => {
      const customer = await createVideoCustomer(world);
      const { ended, job } = await makeVideo(world, customer, { model, behaviour: { bytes: size } });
      const whole = await getFile(customer, ended.id);
      const etag = whole.headers.get("etag") ?? "";
      assert.equal(whole.headers.get("accept-ranges"), "bytes");
      const range = "bytes=100000-149999";
      const wanted = videoFileBytes(job, "video", { from: 100_000, to: 150_000 });
      for (const headers of [{ range }, { range, "if-range": etag }]) {
        const part = await getFile(customer, ended.id, headers);
        assert.deepEqual([part.status, part.headers.get("content-range")], [206, `bytes 100000-149999/${size}`]);
        assert.ok(part.bytes.equals(wanted));
      }
      const other = await getFile(customer, ended.id, { range, "if-range": '"another"' });
      assert.deepEqual([other.status, other.bytes.equals(whole.bytes)], [200, true]);
      const beyond = await getFile(customer, ended.id, { range: `bytes=${size}-` });
      assert.deepEqual([beyond.status, beyond.headers.get("content-range")], [416, `bytes */${size}`]);
    });

    test("downloads cost nothing, however many", async () => {
      const customer = await createVideoCustomer(world);
      const { rid, ended, job } = await makeVideo(world, customer, { model });
      for (let count = 0; count < 3; count += 1) assert.equal((await getFile(customer, ended.id)).status, 200);
      assert.equal(job.downloads, 3);
      await checkVideoMoney(world, customer, { rid, charged: { model, seconds: Number(ended.seconds) } });
    });

    test("API spec, Video generation errors: File requested before completion | 400, `task_not_ready` | `The video is not ready yet`; API spec, States and transitions: 1. When content is requested before the task is completed, then 400 with code `task_not_ready`.", async () => {
      const customer = await createVideoCustomer(world);
      const { id } = videoOf(await submitVideo(customer, { model, behaviour: { polls: 8 } }));
      checkVideoRefusal(await getVideo(customer, `${id}/content`), videoRows.notReady);
      await untilEnded(customer, id);
      assert.equal((await getFile(customer, id)).status, 200);
    });

    test("API spec, Video generation errors: File of a failed task requested | 400, `task_failed` | `The video generation failed`; API spec, States and transitions: 2. When content is requested for a failed task, then 400 with code `task_failed`.", async () => {
      const customer = await createVideoCustomer(world);
      const { ended, job } = await makeVideo(world, customer, { model, behaviour: { end: "failed" } });
      checkVideoRefusal(await getVideo(customer, `${ended.id}/content`), videoRows.failed);
      assert.equal(job.downloads, 0);
    });

    test("API spec, Video generation errors: Provider no longer keeps the file | 410, `artifact_gone` | `Artifact content is no longer available`; API spec, States and transitions: 3. When the provider no longer keeps the file, then content request returns 410 with code `artifact_gone`. API spec, Errors: 410 | `artifact_gone`", async () => {
      const customer = await createVideoCustomer(world);
      const { rid, ended } = await makeVideo(world, customer, { model, behaviour: { goneAfter: true } });
      checkVideoRefusal(await getVideo(customer, `${ended.id}/content`), videoRows.gone);
      assert.equal(videoOf(await getVideo(customer, ended.id)).status, "completed");
      await checkVideoMoney(world, customer, { rid, charged: { model, seconds: Number(ended.seconds) } });
    });

    test("it may be behind a redirect of the provider's own", async () => {
      const customer = await createVideoCustomer(world);
      const { ended, job } = await makeVideo(world, customer, { model, behaviour: { redirect: "own" } });
      const { status, bytes } = await getFile(customer, ended.id);
      assert.deepEqual([status, job.downloads], [200, 1]);
      assert.ok(bytes.equals(videoFileBytes(job, "video", { from: 0, to: bytes.length })));
    });
  });
}

test("pictures of a video, where its provider makes them", async () => {
  const customer = await createVideoCustomer(world);
  const { ended, job } = await makeVideo(world, customer);
  for (const [variant, type] of [
    ["thumbnail", "image/webp"],
    ["spritesheet", "image/jpeg"],
  ] as const) {
    const { status, headers, bytes } = await getFile(customer, ended.id, {}, variant);
    assert.deepEqual([status, headers.get("content-type")], [200, type]);
    assert.ok(bytes.equals(videoFileBytes(job, variant, { from: 0, to: bytes.length })));
  }
});
