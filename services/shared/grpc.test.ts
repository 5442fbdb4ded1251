import assert from "node:assert/strict";
import { test } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { errorTable, ServiceError } from "./errors.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers, type UnaryHandlers } from "./grpc.ts";
import { createLog } from "./log.ts";
import { refusing } from "./testing/refusing.ts";

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
