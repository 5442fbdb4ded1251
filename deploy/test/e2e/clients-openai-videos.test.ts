import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { type VideoBehaviour, videoPrompt } from "#fake-provider/videos-behaviour.ts";
import { videoFileBytes } from "#fake-provider/videos-file.ts";
import { until } from "#shared/testing/until.ts";
import { pixelBase64 } from "./clients-cases.ts";
import { videoCatalog, videoCost } from "./video-catalog.ts";
import { checkFree, checkVideoMoney, createVideoCustomer, makeVideo, onlyJob } from "./videos.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(videoCatalog);

/** The official client as anybody would set it up: another base URL and another key, nothing else. */
const clientOf = (secret: string): OpenAI => new OpenAI({ baseURL: `${world.relayUrl}/v1`, apiKey: secret });

const asked = (model: string, behaviour: VideoBehaviour = {}) => ({ model, prompt: videoPrompt(behaviour) });

/** What its own documentation shows: retrieve until the status is an end. */
async function poll(client: OpenAI, id: string): Promise<OpenAI.Videos.Video> {
  const ended = await until(`${id} has ended`, async () => {
    const video = await client.videos.retrieve(id);
    return (video.status === "completed" || video.status === "failed") && video;
  });
  return ended as OpenAI.Videos.Video;
}

for (const [model, seconds, size] of [
  ["sora-model", "8", "1280x720"],
  ["veo-model", "4", "720x1280"],
] as const) {
  describe(`the official openai client, videos (${model})`, () => {
    test("create, retrieve until it has ended, download the whole file and a part of it", async () => {
      const customer = await createVideoCustomer(world);
      const client = clientOf(customer.secret);
      const created = await client.videos.create({ ...asked(model), seconds, size });
      assert.deepEqual([created.object, created.status, created.progress], ["video", "queued", 0]);
      const rid = String((created as { _request_id?: string })._request_id);
      const video = await poll(client, created.id);
      assert.deepEqual([video.status, video.seconds, video.size, video.error], ["completed", seconds, size, null]);

      const job = onlyJob(world, rid);
      const whole = await client.videos.downloadContent(video.id);
      const bytes = Buffer.from(await whole.arrayBuffer());
      assert.equal(whole.headers.get("content-type"), "video/mp4");
      assert.ok(bytes.length > 0 && bytes.equals(videoFileBytes(job, "video", { from: 0, to: bytes.length })));
      const range = { headers: { Range: "bytes=10-99" } };
      const part = await client.videos.downloadContent(video.id, { variant: "video" }, range);
      assert.equal(part.status, 206);
      assert.ok(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(10, 100)));
      await checkVideoMoney(world, customer, { rid, charged: { model, seconds: Number(seconds), size } });
    });

    test("with a picture to begin with: as a file, and as a data URL", async () => {
      const { secret } = await createVideoCustomer(world);
      const client = clientOf(secret);
      const picture = Buffer.from(pixelBase64, "base64");
      const file = await toFile(picture, "first.png", { type: "image/png" });
      for (const reference of [file, { image_url: `data:image/png;base64,${pixelBase64}` }]) {
        const before = world.videos.jobs.length;
        const { id } = await client.videos.create({ ...asked(model), input_reference: reference });
        assert.deepEqual(
          world.videos.jobs.slice(before).map(({ hasReference }) => hasReference),
          [true],
        );
        const sent = JSON.stringify(world.videos.received.findLast(({ method }) => method === "POST")?.body);
        assert.ok(model === "sora-model" || sent.includes(pixelBase64), "its very bytes");
        assert.equal((await poll(client, id)).status, "completed");
      }
    });

    test("list page by page, delete", async () => {
      const { secret } = await createVideoCustomer(world);
      const client = clientOf(secret);
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        const { id } = await client.videos.create(asked(model));
        await poll(client, id);
        ids.push(id);
      }
      const listed: string[] = [];
      for await (const { id } of client.videos.list({ limit: 2 })) listed.push(id);
      assert.deepEqual(listed, ids.toReversed());
      const [first = ""] = ids;
      assert.deepEqual(
        { ...(await client.videos.delete(first)) },
        { id: first, object: "video.deleted", deleted: true },
      );
      await assert.rejects(client.videos.retrieve(first), OpenAI.BadRequestError);
      await assert.rejects(client.videos.downloadContent(first), OpenAI.NotFoundError);
    });

    test("a failed one tells why, and its price is given back", async () => {
      const customer = await createVideoCustomer(world);
      const client = clientOf(customer.secret);
      const created = await client.videos.create({ ...asked(model, { end: "filtered" }), seconds });
      const { status, error } = await poll(client, created.id);
      assert.equal(status, "failed");
      assert.ok(error?.code && error.message);
      await assert.rejects(client.videos.downloadContent(created.id), OpenAI.BadRequestError);
      const charged = { model, seconds: Number(seconds) };
      const rid = String((created as { _request_id?: string })._request_id);
      await checkVideoMoney(world, customer, { rid, charged, refundedNanos: videoCost(charged) });
    });

    test("by itself it retries neither a refusal nor an outcome that nobody knows", async () => {
      const customer = await createVideoCustomer(world);
      const client = clientOf(customer.secret);
      for (const [behaviour, error] of [
        [{ submit: "reject" }, OpenAI.BadRequestError],
        [{ submit: "accept-then-cut" }, OpenAI.BadRequestError],
      ] as const) {
        const before = world.videos.received.length;
        await assert.rejects(client.videos.create(asked(model, behaviour)), error);
        const sent = world.videos.received.slice(before).filter(({ method }) => method === "POST");
        assert.equal(sent.length, 1);
      }
      await checkFree(world, customer);
    });

    test("API spec, Retry guidance: 429 | Do not retry | 410", async () => {
      const customer = await createVideoCustomer(world);
      const { ended } = await makeVideo(world, customer, { model, behaviour: { goneAfter: true } });
      const statuses: number[] = [];
      const client = clientOf(customer.secret).withOptions({
        fetch: async (...call: Parameters<typeof fetch>) => {
          const answer = await fetch(...call);
          statuses.push(answer.status);
          return answer;
        },
      });
      await assert.rejects(client.videos.downloadContent(ended.id), { status: 410 });
      assert.deepEqual(statuses, [410]);
    });

    test("errors are its own types", async () => {
      const poor = await createVideoCustomer(world, { creditNanos: 1n });
      await assert.rejects(clientOf(poor.secret).videos.create(asked(model)), OpenAI.PermissionDeniedError);
      await assert.rejects(clientOf("sk-wrong").videos.create(asked(model)), OpenAI.AuthenticationError);
      await assert.rejects(clientOf(poor.secret).videos.retrieve("video_1"), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.deepEqual([error.code, error.type], ["task_not_found", "invalid_request_error"]);
        return true;
      });
    });
  });
}
