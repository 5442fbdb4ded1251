import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import { hashOf, startAppWorld } from "../../../services/auth-quota/testing/app-world.ts";
import { openQuotaSession } from "../../../services/relay/charge/quota-session.ts";
import { startProxy } from "../chaos/proxy.ts";

const log = createLog("relay", "silent");

test("a replica of auth-quota that stops decides until its relays have found another one, however long that takes", async () => {
  await using world = await startAppWorld({ DRAIN_MS: 120_000 });
  const { secret } = await world.createPayer(1_000n);
  const stopping = await world.startReplica();
  await using way = await startProxy();
  way.leadTo(world.first.app.grpcPort);
  // The other one is only being found, as one is that came a moment ago.
  way.freeze();
  using channel = connectGrpc(`ipv4:127.0.0.1:${stopping.app.grpcPort},127.0.0.1:${way.port}`);
  await using session = openQuotaSession(channel, "relay_moving", log);
  const authorize = { case: "authorize" as const, value: { keyHash: hashOf(secret), ip: "192.0.2.1" } };
  const ask = async (): Promise<Verdict> => (await session.ask({ operation: authorize })).verdict;
  await until("the stopping replica decides", async () => (await ask()) === Verdict.OK);

  const stopped = stopping[Symbol.asyncDispose]();
  await until("the relay looks for another one", () => way.opened() > 0);
  const sinceStop: Verdict[] = [];
  for (let asked = 0; asked < 50; asked += 1) {
    sinceStop.push(await ask());
    assert.ok(session.isReachable());
  }
  assert.deepEqual(new Set(sinceStop), new Set([Verdict.OK]));
  way.heal();
  // Resolves once its relays have left, long before the end of its drain.
  await stopped;
  assert.equal(await ask(), Verdict.OK);
});
