import assert from "node:assert/strict";
import { after, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { conversionCatalog, modelOf } from "./conversion.ts";
import { openSocket } from "./socket-caller.ts";
import { startWorld } from "./world.ts";

const world = await startWorld({
  catalog: conversionCatalog,
  serviceEnvironment: { relay: { DRAIN_MS: "4000", MAX_SOCKETS_PER_ACCOUNT: "3" } },
});
after(() => world[Symbol.asyncDispose]());
const model = modelOf("messages");

test("a relay that is told to stop: idle sockets close, turns end or are cut, each is charged, it exits with 0", async () => {
  const { secret, accountId } = await world.createCustomer();
  const [idle, ending, tooLong] = [
    await openSocket(world.relayUrl, secret),
    await openSocket(world.relayUrl, secret),
    await openSocket(world.relayUrl, secret),
  ];
  await assert.rejects(openSocket(world.relayUrl, secret), /429/, "a fourth one of the account");
  ending.send({ type: "response.create", model, input: behaviourText({ outputTokens: 10, gapMs: 50 }) });
  tooLong.send({ type: "response.create", model, input: behaviourText({ outputTokens: 600, gapMs: 50 }) });
  await until("both are under way", () => [ending, tooLong].every(({ events }) => events.length > 5));
  const { relay } = world.stack.services;
  const stopped = relay.kill("SIGTERM");
  assert.equal(await idle.closed, 1012);
  const [whole, cut] = [await ending.ended(), await tooLong.ended()];
  assert.equal(whole.last["type"], "response.completed");
  assert.deepEqual([cut.last["type"], cut.last["status"]], ["error", 500]);
  assert.deepEqual(await Promise.all([ending.closed, tooLong.closed]), [1012, 1012]);
  await stopped;
  assert.equal(await relay.ended, "exit code 0");
  const lines = await world.untilSettled(accountId, 2);
  const ends = new Map(lines.map(({ rid, usage }) => [rid, usage?.endCause]));
  assert.deepEqual([ends.get(whole.rid), ends.get(cut.rid)], [EndCause.COMPLETE, EndCause.DRAINED]);
});
