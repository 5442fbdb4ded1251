import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import type { VideoBehaviour } from "#fake-provider/videos-behaviour.ts";
import { videoCatalog, videoCost } from "./video-catalog.ts";
import {
  checkFree,
  checkVideoMoney,
  checkVideoRefusal,
  createVideoCustomer,
  getVideo,
  makeVideo,
  onlyJob,
  submitVideo,
  type VideoCall,
  videoOf,
  videoRows,
} from "./videos.ts";
import { startWorld } from "./world.ts";

const world = await startWorld({ catalog: videoCatalog, serviceEnvironment: { "video-task": { GRACE_SECONDS: "1" } } });
after(() => world[Symbol.asyncDispose]());

type Failure = { what: string; model: string; behaviour: VideoBehaviour; code: string; message: RegExp };

const failures: Failure[] = [
  {
    what: "its provider says that it failed",
    model: "sora-model",
    behaviour: { end: "failed", failureCode: "moderation_blocked" },
    code: "moderation_blocked",
    message: /^The video could not be generated\.$/,
  },
  {
    what: "its operation ends with an error",
    model: "veo-model",
    behaviour: { end: "failed", failureCode: "INTERNAL" },
    code: "INTERNAL",
    message: /^The video could not be generated\.$/,
  },
  {
    what: "all of it was filtered",
    model: "veo-model",
    behaviour: { end: "filtered" },
    code: "content_policy_violation",
    message: /The prompt was refused by the safety rules\..*Support codes/,
  },
  {
    what: "its provider does not know it",
    model: "sora-model",
    behaviour: { lost: true },
    code: "not_found",
    message: /\w/,
  },
  {
    what: "it has not ended by its deadline",
    model: "brief-sora-model",
    behaviour: { end: "never" },
    code: "timeout",
    message: /\w/,
  },
  {
    what: "it has not ended by its deadline",
    model: "brief-veo-model",
    behaviour: { end: "never" },
    code: "timeout",
    message: /\w/,
  },
  {
    what: "its provider answers nothing beyond the deadline",
    model: "brief-sora-model",
    behaviour: { pollFaults: Array.from({ length: 500 }, () => 500) },
    code: "timeout",
    message: /\w/,
  },
];

describe("API spec, States and transitions: `failed` | Progress check shows `failed`; price refunded in full; content request returns 400 `task_failed`; API spec, Resources and their fields: **Video task.** A failed task's price is refunded in full. Once, when", () => {
  for (const { what, model, behaviour, code, message } of failures) {
    test(`${what} (${model}, ${code})`, async () => {
      const customer = await createVideoCustomer(world);
      const { rid, ended } = await makeVideo(world, customer, { model, behaviour });
      assert.deepEqual([ended.status, ended.error?.code, ended.completed_at], ["failed", code, null]);
      assert.match(ended.error?.message ?? "", message);
      checkVideoRefusal(await getVideo(customer, `${ended.id}/content`), videoRows.failed);
      const charged = { model, seconds: Number(ended.seconds) };
      await checkVideoMoney(world, customer, { rid, charged, refundedNanos: videoCost(charged) });
      assert.deepEqual(videoOf(await getVideo(customer, ended.id)), ended, "what has ended stays as it is");
    });
  }

  test("and what was given back can be spent again, by the key too", async () => {
    const charged = { model: "sora-model", seconds: 8 };
    const limitNanos = videoCost(charged) + 1n;
    const customer = await createVideoCustomer(world, { creditNanos: limitNanos, key: { limitNanos } });
    const call = (behaviour: VideoBehaviour): VideoCall => ({ behaviour, more: { seconds: "8" } });
    const failed = await makeVideo(world, customer, call({ end: "failed" }));
    await checkVideoMoney(world, customer, { rid: failed.rid, charged, refundedNanos: videoCost(charged) });
    const { rid } = await makeVideo(world, customer, call({}));
    await checkVideoMoney(world, customer, { rid, charged });
  });
});

describe("another length than the one that was asked and paid for", () => {
  const shorter = { model: "sora-model", seconds: 12, delivered: 5, size: "1792x1024" };

  test("a shorter one: the difference is given back", async () => {
    const customer = await createVideoCustomer(world);
    const { model, seconds, delivered, size } = shorter;
    const call = { model, behaviour: { deliveredSeconds: delivered }, more: { seconds: String(seconds), size } };
    const { rid, ended } = await makeVideo(world, customer, call);
    assert.equal(ended.status, "completed");
    const charged = { model, seconds, size };
    const refundedNanos = videoCost(charged) - videoCost({ ...charged, seconds: delivered });
    await checkVideoMoney(world, customer, { rid, charged, refundedNanos });
  });

  test("a longer one costs what was agreed", async () => {
    const customer = await createVideoCustomer(world);
    const { rid } = await makeVideo(world, customer, { behaviour: { deliveredSeconds: 9 }, more: { seconds: "4" } });
    await checkVideoMoney(world, customer, { rid, charged: { model: "sora-model", seconds: 4 } });
  });
});

test("polls that go wrong for a while change nothing of a video, nor of its price", async () => {
  const customer = await createVideoCustomer(world);
  for (const model of ["sora-model", "veo-model"]) {
    const { rid, ended } = await makeVideo(world, customer, { model, behaviour: { pollFaults: [503, 0, 500] } });
    assert.equal(ended.status, "completed");
    await checkVideoMoney(world, customer, { rid, charged: { model, seconds: Number(ended.seconds) } });
  }
});

describe("nobody can know whether the provider took the video: it is free, never submitted again, and told apart", () => {
  const { opsUrls } = world.stack.addresses;
  for (const model of ["sora-model", "veo-model"]) {
    for (const submit of ["accept-then-cut", "garbage", "error", "cut"] as const) {
      test(`${model}: ${submit}`, async () => {
        const customer = await createVideoCustomer(world);
        const [before, taken] = [world.videos.received.length, world.videos.jobs.length];
        const reply = await submitVideo(customer, { model, behaviour: { submit } });
        checkVideoRefusal(reply, videoRows.unknown);
        await checkFree(world, customer);
        const sent = world.videos.received.slice(before).filter(({ method }) => method === "POST");
        assert.equal(sent.length, 1, "submitted once");
        const isTaken = submit === "accept-then-cut" || submit === "garbage";
        assert.equal(world.videos.jobs.length - taken, isTaken ? 1 : 0);
        if (isTaken) onlyJob(world, reply.rid);
        assert.deepEqual((await getVideo(customer, "?")).json()["data"], [], "no task of the account");
      });
    }
  }

  test("the operator sees it as a count", async () => {
    const text = await (await fetch(`${opsUrls["video-task"]}/metrics`)).text();
    assert.match(text, /^video_task_submissions_total\{[^}]*outcome="unknown"[^}]*\} [1-9]/m);
  });
});
