import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { until } from "#shared/testing/until.ts";
import { drain } from "../drain.ts";
import { chargeOf, taskIdOf, taskWith } from "../testing/task-server.ts";
import { checkClosed, errorOf, outcomeUnknown, startVideoRelay, submit } from "../testing/video-relay.ts";

const unavailable = (): never => {
  throw new ServiceError("unavailable", "the answer is lost");
};

const stopping = "The service is temporarily unavailable, please try again later";

describe("an answer of the service that is lost", () => {
  test("is asked for again under the same rid: taken once, charged once", async () => {
    await using relay = await startVideoRelay();
    let lost = 2;
    relay.taskServer.script.submit = async (request) => {
      if (lost-- > 0) unavailable();
      const task = taskWith({ taskId: taskIdOf(request.charge?.rid ?? ""), state: TaskState.QUEUED });
      return { outcome: { case: "accepted", value: { task, charge: chargeOf(request) } } };
    };
    assert.equal((await submit(relay)).status, 200);
    const rids = relay.taskServer.submitted.map(({ charge }) => charge?.rid);
    assert.equal(rids.length, 3);
    assert.equal(new Set(rids).size, 1);
    assert.equal(relay.charges().length, 1);
  });

  test("for good, of a video that was taken: concluded, charged, and the caller has it", async () => {
    await using relay = await startVideoRelay();
    relay.taskServer.script.submit = unavailable;
    relay.taskServer.script.conclude = async ({ rid, accountId }) => {
      const [request] = relay.taskServer.submitted;
      assert.ok(request && request.charge?.rid === rid);
      const taskId = taskIdOf(rid);
      relay.taskServer.tasks.set(taskId, { accountId, task: taskWith({ taskId, state: TaskState.IN_PROGRESS }) });
      return { charge: chargeOf(request) };
    };
    const { status, body } = await submit(relay);
    assert.deepEqual([status, body["status"]], [200, "in_progress"]);
    assert.deepEqual(
      relay.charges().map(({ costNanos }) => costNanos),
      [400_000_000n],
    );
    assert.equal(relay.relay.live.size, 0);
  });

  test("for good, of a video that nobody took: released, and the caller may try again", async () => {
    await using relay = await startVideoRelay();
    relay.taskServer.script.submit = unavailable;
    const told = await submit(relay);
    assert.deepEqual(errorOf(told), [503, "api_error", "service_unavailable", stopping]);
    assert.equal(told.headers.get("x-should-retry"), null);
    assert.equal(relay.taskServer.concluded.length, 1);
    await checkClosed(relay);
  });

  test("for good, of a video that nobody knows of: released, and the caller is told not to try again", async () => {
    await using relay = await startVideoRelay();
    relay.taskServer.script.submit = unavailable;
    relay.taskServer.script.conclude = async () => ({ isUnknown: true });
    const told = await submit(relay);
    assert.deepEqual(errorOf(told), outcomeUnknown);
    assert.equal(told.headers.get("x-should-retry"), "false");
    const failed = relay.lines.find((line) => line["msg"] === "call failed");
    assert.equal(failed?.["failure"], "submission_unknown", "an error for the operator, whatever its status");
    await checkClosed(relay);
  });

  for (const isTaken of [true, false]) {
    test(`while nothing can be learnt: the caller hears that nobody knows, and it is ${isTaken ? "charged" : "released"} when it is known`, async () => {
      await using relay = await startVideoRelay();
      let isKnown = false;
      relay.taskServer.script.submit = unavailable;
      relay.taskServer.script.conclude = async () => {
        const [request] = relay.taskServer.submitted;
        if (!isKnown || !request) return unavailable();
        return isTaken ? { charge: chargeOf(request) } : {};
      };
      const told = await submit(relay);
      assert.deepEqual(errorOf(told), outcomeUnknown);
      assert.equal(told.headers.get("x-should-retry"), "false");
      await until("it is asked for again", () => relay.taskServer.concluded.length > 3);
      const [call] = relay.relay.live;
      assert.equal(call?.rid, told.headers.get("x-request-id"), "the hold is kept alive");
      assert.deepEqual([relay.charges(), relay.told("release"), relay.relay.videos.submissions], [[], [], 1]);
      isKnown = true;
      if (!isTaken) {
        await checkClosed(relay);
        return;
      }
      await until("it is charged", () => relay.charges().length === 1);
      await until("nothing is open", () => relay.relay.videos.submissions === 0 && relay.relay.live.size === 0);
      assert.deepEqual(relay.told("release"), []);
    });
  }

  test("is given up in the end, and the hold released", async () => {
    await using relay = await startVideoRelay({ bounds: { maxConcludeTries: 2 } });
    relay.taskServer.script.submit = unavailable;
    relay.taskServer.script.conclude = unavailable;
    assert.deepEqual(errorOf(await submit(relay)), outcomeUnknown);
    await checkClosed(relay);
    assert.equal(relay.taskServer.concluded.length, 3);
    assert.ok(relay.lines.some((line) => /was not told, its hold is released/.test(String(line["msg"]))));
  });
});

test("a relay that stops waits for submissions, and leaves at the end of its time without the rest", async () => {
  await using relay = await startVideoRelay();
  relay.taskServer.script.submit = () => new Promise(() => undefined);
  const waiting = submit(relay);
  await until("it is being submitted", () => relay.taskServer.submitted.length === 1);
  await drain(relay.app, relay.relay, 50);
  const told = await waiting;
  assert.deepEqual(errorOf(told), outcomeUnknown);
  assert.deepEqual([relay.charges(), relay.told("release")], [[], []], "the service and auth-quota close its books");
  assert.equal(relay.relay.live.size, 0);
});
