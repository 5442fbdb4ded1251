import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { taskIdOf, taskWith } from "../testing/task-server.ts";
import { ask, errorOf, startVideoRelay, submit } from "../testing/video-relay.ts";

test("fields that go nowhere are named in x-relay-dropped, and refused before money for callers who want that", async () => {
  await using relay = await startVideoRelay();
  const counted = mock.method(relay.relay.metrics.droppedFields, "inc");
  const fields = { quality: "high", negative_prompt: "dogs" };
  const form = new FormData();
  for (const [name, value] of Object.entries({ prompt: "a red fox", ...fields })) form.set(name, value);
  const sendForm = (headers: Record<string, string> = {}) =>
    ask(relay, "/v1/videos", { method: "POST", body: form, headers });
  for (const told of [await submit(relay, fields), await sendForm()]) {
    assert.deepEqual([told.status, told.headers.get("x-relay-dropped")], [200, "quality, negative_prompt"]);
  }
  assert.equal((await submit(relay)).headers.get("x-relay-dropped"), null);
  const strict = { "x-relay-strict": "true" };
  const message = "field quality cannot be carried to the provider of this model";
  for (const told of [await submit(relay, fields, strict), await sendForm(strict)])
    assert.deepEqual(errorOf(told), [400, "invalid_request_error", "invalid_request", message]);
  assert.equal(relay.taskServer.submitted.length, 3);
  assert.equal(relay.told("reserve").length, 3);
  assert.equal(counted.mock.callCount(), 4);
  assert.equal((await submit(relay, {}, strict)).status, 200);
});

test("an earlier submission under the same Idempotency-Key names them, too", async () => {
  await using relay = await startVideoRelay();
  const key = { "idempotency-key": "k" };
  const task = taskWith({ taskId: taskIdOf("a".repeat(32)), state: TaskState.QUEUED });
  relay.taskServer.script.findSubmission = async () => ({ found: { case: "task", value: task } });
  const told = await submit(relay, { quality: "high" }, key);
  assert.deepEqual([told.status, told.headers.get("x-relay-dropped")], [200, "quality"]);
  assert.equal((await submit(relay, { quality: "high" }, { ...key, "x-relay-strict": "true" })).status, 400);
});
