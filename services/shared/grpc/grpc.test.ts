import assert from "node:assert/strict";
import { test } from "node:test";
import { connectivityState, Metadata, type Client } from "@grpc/grpc-js";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { errorTable, ServiceError } from "../process/errors.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers, type UnaryHandlers } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { freePort } from "../testing/free-port.ts";
import { refusing } from "../testing/refusing.ts";

const log = createLog("test", "silent");

function handlersThatFail(thrown: () => Error): UnaryHandlers<typeof BillingService> {
  return { ...refusing(BillingService, thrown), getBalance: async () => ({ balanceNanos: 2n ** 62n }) };
}

test("a unary call carries int64 exactly, and every row of the error table crosses gRPC intact", async () => {
  let thrown: Error = new Error("never");
  const handlers = unaryHandlers(
    BillingService,
    handlersThatFail(() => thrown),
    log,
  );
  await using server = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  const billing = unaryClient(BillingService, channel, 2_000);

  assert.equal((await billing.getBalance({ accountId: "a" })).balanceNanos, 2n ** 62n);
  for (const code of Object.keys(errorTable) as (keyof typeof errorTable)[]) {
    thrown = new ServiceError(code, `words for ${code}`);
    await assert.rejects(billing.credit({}), { name: "ServiceError", code, message: `words for ${code}` });
  }
  thrown = new Error("password=hunter2");
  await assert.rejects(billing.credit({}), { code: "internal", message: "internal error" });
});

/** A channel on which calls end as told, one after the other; "" is an answer. One that is refused cuts it off. */
function channelThatSays(words: string[]) {
  let [calls, waits] = [0, 0];
  let state = connectivityState.READY;
  const makeUnaryRequest = (...args: unknown[]): void => {
    const end = args.at(-1) as (error: object | null, response?: object) => void;
    const details = words[calls] ?? "";
    calls += 1;
    const isAnswer = details === "";
    if (!isAnswer) state = connectivityState.TRANSIENT_FAILURE;
    end(
      isAnswer ? null : Object.assign(new Error(details), { code: 14, details, metadata: new Metadata() }),
      isAnswer ? { balanceNanos: 7n } : {},
    );
  };
  const waitForReady = (_deadline: number, callback: () => void): void => {
    waits += 1;
    state = connectivityState.READY;
    callback();
  };
  const channel = { getConnectivityState: () => state, watchConnectivityState: () => undefined };
  const client = { makeUnaryRequest, waitForReady, getChannel: () => channel } as unknown as Client;
  return { client, calls: () => calls, waits: () => waits };
}

test("a call that a closing connection refused is sent again, and no other, since somebody may have looked at it", async () => {
  const refused = "Stream refused by server";
  const asked = channelThatSays([refused, refused, ""]);
  const answer = await unaryClient(BillingService, asked.client, 1_000).getBalance({});
  assert.deepEqual([answer.balanceNanos, asked.calls()], [7n, 3]);
  const broken = channelThatSays(["Connection dropped", ""]);
  const call = unaryClient(BillingService, broken.client, 1_000).getBalance({});
  await assert.rejects(call, { code: "unavailable" });
  assert.equal(broken.calls(), 1);
  const hopeless = channelThatSays(Array.from({ length: 20 }, () => refused));
  await assert.rejects(unaryClient(BillingService, hopeless.client, 1_000).getBalance({}), { code: "unavailable" });
  assert.equal(hopeless.calls(), 6);
});

test("a call that was refused and found no other connection waits for one, as a new call does", async () => {
  const words = "round_robin: No connection established. Last error: connect ECONNREFUSED";
  const late = channelThatSays([words, "Stream refused by server", words, ""]);
  const answer = await unaryClient(BillingService, late.client, 1_000).getBalance({});
  assert.deepEqual([answer.balanceNanos, late.calls(), late.waits()], [7n, 4, 3]);
});

test("a server that says the same words has looked at the call: it is not sent again", async () => {
  let calls = 0;
  const thrown = (): Error => {
    calls += 1;
    return new ServiceError("unavailable", "Stream refused by server");
  };
  const handlers = unaryHandlers(BillingService, refusing(BillingService, thrown), log);
  await using server = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  await assert.rejects(unaryClient(BillingService, channel, 2_000).credit({}), { code: "unavailable" });
  assert.equal(calls, 1);
});

test("a call that waits for a connection fails when the channel is closed meanwhile", async () => {
  const closed = (): never => {
    throw new Error("Channel has been shut down");
  };
  const channel = { getConnectivityState: () => connectivityState.CONNECTING, watchConnectivityState: () => undefined };
  const waitForReady = (_deadline: number, callback: () => void): void => callback();
  const client = { makeUnaryRequest: closed, getChannel: () => channel, waitForReady } as unknown as Client;
  await assert.rejects(unaryClient(BillingService, client, 1_000).getBalance({}), { name: "ServiceError" });
});

test("a call whose time is over while it waits says why there was no connection, not that the time is over", async () => {
  using channel = connectGrpc(`127.0.0.1:${await freePort()}`);
  const getBalance = unaryClient(BillingService, channel, 1_300).getBalance({});
  await assert.rejects(getBalance, { code: "unavailable", message: /No connection established/ });
});
