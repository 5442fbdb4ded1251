import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { startProxy } from "../chaos/proxy.ts";
import { chat, makeCall, type Reply } from "./ask.ts";
import { rows } from "./refusal.ts";
import { startSecondVideoTask } from "./second-video-task.ts";
import { videoCatalog, videoCost } from "./video-catalog.ts";
import {
  checkFree,
  checkVideoMoney,
  checkVideoRefusal,
  createVideoCustomer,
  getVideo,
  onlyJob,
  submitVideo,
  untilEnded,
  type VideoCall,
  type VideoCustomer,
  type VideoObject,
  videoOf,
  videoRows,
} from "./videos.ts";
import { startWorld } from "./world.ts";

const proxy = await startProxy();
const world = await startWorld({
  catalog: videoCatalog,
  serviceEnvironment: {
    // So far apart that a kill seldom strikes within a poll or a try, which then waits for the end of its lease.
    "video-task": { SUBMIT_LEASE_MS: "5000", POLL_INTERVAL_MS: "600", CONFIRM_MS: "600" },
    billing: { OUTBOX_AGE_MS: "2000" },
  },
  reroute: (service, variables) => {
    if (service !== "relay") return variables;
    const [host, port] = variables["VIDEO_TASK_ADDRESS"]?.split(":") ?? [];
    proxy.leadTo(Number(port));
    return { ...variables, VIDEO_TASK_ADDRESS: `${host}:${proxy.port}` };
  },
});
after(async () => {
  await world[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
});
const { relay, videoTask, billing } = world.stack.services;

const model = "sora-model";
const charged = { model, seconds: 4 };
const pollLeaseMs = 30_000;

/** Submits and waits until the provider has taken the task; the answer is on its way. */
async function submitUntilTaken(customer: VideoCustomer, call: VideoCall) {
  const before = world.videos.jobs.length;
  const answer: Promise<Reply | undefined> = submitVideo(customer, call).catch(() => undefined);
  await until("the provider has taken it", () => world.videos.jobs.length > before);
  const rid = world.videos.jobs[before]?.rid ?? "";
  return { answer, rid };
}

async function statesOf(accountId: string): Promise<string[]> {
  const statement = `select state from video_task.task where account_id = '${accountId}' order by rid`;
  const { rows } = await query(world.stack.stores.urls.postgres, statement);
  return rows.map(({ state }) => String(state));
}

/** Waits until the relay has found video-task again, and gives the tasks. */
async function listOf(customer: VideoCustomer): Promise<VideoObject[]> {
  const listed = await until("tasks are listed", async () => {
    const reply = await getVideo(customer, "?");
    return reply.status === 200 && reply;
  });
  return (listed as Reply).json()["data"] as VideoObject[];
}

describe("kill -9 while a video is submitted", () => {
  test("of video-task, behind the acceptance and before its answer: the relay asks again and gets that task", async () => {
    const customer = await createVideoCustomer(world);
    const { answer, rid } = await submitUntilTaken(customer, { behaviour: { submit: "slow", submitMs: 500 } });
    proxy.freeze();
    await until("the task is written down", async () => (await statesOf(customer.accountId))[0] === "queued");
    await videoTask.kill();
    await videoTask.restart();
    proxy.heal();
    const reply = await answer;
    assert.ok(reply);
    const { id } = videoOf(reply);
    onlyJob(world, rid);
    assert.equal((await untilEnded(customer, id)).status, "completed");
    await checkVideoMoney(world, customer, { rid, charged });
  });

  test("of video-task, before the provider's answer: nobody can know, so it is free and never submitted again", async () => {
    const customer = await createVideoCustomer(world);
    const { answer, rid } = await submitUntilTaken(customer, { behaviour: { submit: "slow", submitMs: 60_000 } });
    await videoTask.kill();
    await videoTask.restart();
    const reply = await answer;
    assert.ok(reply);
    checkVideoRefusal(reply, videoRows.unknown);
    await until("nobody waits for it", async () => (await statesOf(customer.accountId))[0] === "unknown");
    onlyJob(world, rid);
    await checkFree(world, customer);
    assert.deepEqual(await listOf(customer), []);
  });

  test("of the relay: the task is taken, shown and charged all the same, and its hold ends", async () => {
    const customer = await createVideoCustomer(world);
    const { answer, rid } = await submitUntilTaken(customer, { behaviour: { submit: "slow", submitMs: 800 } });
    await relay.kill();
    assert.equal(await answer, undefined, "the caller's connection broke");
    await relay.restart();
    const [video] = (await until("the task is listed", async () => {
      const list = await listOf(customer);
      return list.length > 0 && list;
    })) as VideoObject[];
    assert.equal(video?.id, `video_${rid.replaceAll("-", "")}`);
    await untilEnded(customer, video.id);
    onlyJob(world, rid);
    await checkVideoMoney(world, customer, { rid, charged });
  });
});

test("video-task is asked to stop while it submits: that is answered, then videos are 503 and free, all else goes on", async () => {
  const customer = await createVideoCustomer(world);
  const { answer, rid } = await submitUntilTaken(customer, { behaviour: { submit: "slow", submitMs: 800 } });
  await videoTask.kill("SIGTERM");
  const reply = await answer;
  assert.ok(reply);
  const { id } = videoOf(reply);

  const poor = await createVideoCustomer(world);
  checkVideoRefusal(await submitVideo(poor), rows.serviceUnavailable);
  checkVideoRefusal(await getVideo(customer, id), rows.serviceUnavailable);
  assert.equal((await makeCall(world.relayUrl, customer.secret, { side: chat })).status, 200);
  await videoTask.restart();
  await checkFree(world, poor);
  await listOf(customer);
  assert.equal((await untilEnded(customer, id)).status, "completed");
  onlyJob(world, rid);
  await checkVideoMoney(world, customer, { rid, charged });
});

describe("while a video fails", () => {
  test("billing and NATS are away, then video-task is killed, too: one charge and one refund once all are back", async () => {
    const customer = await createVideoCustomer(world);
    const { nats } = world.stack.stores.processes;
    assert.ok(nats, "NATS is a process of this stack");
    world.videos.script({ end: "never" });
    const { id } = videoOf(await submitVideo(customer));
    const rid = world.videos.jobs.at(-1)?.rid ?? "";
    await billing.kill();
    await nats.kill();
    world.videos.script({ end: "failed" });
    assert.equal((await untilEnded(customer, id)).status, "failed", "callers see it at once");
    world.videos.script({});
    await videoTask.kill();
    for (const process of [nats, billing, videoTask]) await process.restart();
    await checkVideoMoney(world, customer, { rid, charged, refundedNanos: videoCost(charged) });
  });

  test("its video-task is killed for good: another on the same database ends what it began, each refunded once", async () => {
    const customer = await createVideoCustomer(world);
    await using _second = await startSecondVideoTask(world, { SUBMIT_LEASE_MS: "5000" });
    const ends = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? "failed" : "completed"));
    const submissions = ends.map((end) => submitVideo(customer, { behaviour: { end, polls: 6 } as const }));
    const rids = (await Promise.all(submissions)).map((reply) => {
      videoOf(reply);
      return reply.rid;
    });
    await videoTask.kill();
    const areEnded = async (): Promise<boolean> =>
      (await statesOf(customer.accountId)).every((state) => state === "failed" || state === "completed");
    await until("the other one has ended all", areEnded, pollLeaseMs + 15_000);
    for (const [index, rid] of rids.entries()) {
      const refund = ends[index] === "failed" ? { refundedNanos: videoCost(charged) } : {};
      await checkVideoMoney(world, customer, { rid, charged, ...refund });
    }
    await videoTask.restart();
    const listed = await listOf(customer);
    assert.equal(listed.filter(({ status }) => status === "failed").length, 6);
  });
});
