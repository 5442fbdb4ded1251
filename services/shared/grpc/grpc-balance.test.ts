import assert from "node:assert/strict";
import { test } from "node:test";
import { experimental } from "@grpc/grpc-js";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { refusing } from "../testing/refusing.ts";
import { until } from "../testing/until.ts";

const log = createLog("test", "silent");

/** What the name `replicas:///` stands for; asked again when gRPC wants to know, as it asks the DNS. */
let places: { host: string; port: number }[] = [];
let questions = 0;

experimental.registerResolver(
  "replicas",
  class {
    listener: experimental.ResolverListener;
    /** Whether an answer is under way: a name is not asked for twice at once. */
    isAsked = false;
    isClosed = false;
    constructor(_target: unknown, listener: experimental.ResolverListener) {
      this.listener = listener;
    }
    updateResolution(): void {
      if (this.isAsked) return;
      this.isAsked = true;
      questions += 1;
      setImmediate(() => {
        this.isAsked = false;
        const endpoints = places.map((place) => ({ addresses: [place] }));
        // An answer to a channel that is closed would open it again, which then asks for ever.
        if (!this.isClosed) this.listener(experimental.statusOrFromValue(endpoints), {}, null, "");
      });
    }
    destroy(): void {
      this.isClosed = true;
    }
    static getDefaultAuthority(): string {
      return "replicas";
    }
  },
);

/** A replica that answers a little later, so that calls are under way when it is told to stop. */
async function startReplica() {
  const replica = { calls: 0 };
  const getBalance = async () => {
    replica.calls += 1;
    const answer = Promise.withResolvers<void>();
    setTimeout(answer.resolve, 5);
    await answer.promise;
    return { balanceNanos: 7n };
  };
  const all = { ...refusing(BillingService, () => new Error("not asked")), getBalance };
  const handlers = unaryHandlers(BillingService, all, log);
  const listener = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 5_000 });
  return Object.assign(replica, { place: { host: "127.0.0.1", port: listener.port }, listener });
}

/** Calls from many places at once, until it is told to stop; gives what was sent and what has failed. */
function callOn(billing: { getBalance: (request: object) => Promise<unknown> }) {
  let isOver = false;
  const failures: unknown[] = [];
  let sent = 0;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      sent += 1;
      await billing.getBalance({ accountId: "a" }).catch((error: unknown) => failures.push(error));
    }
  };
  const loops = Promise.all(Array.from({ length: 16 }, loop));
  const end = async (): Promise<{ sent: number; failures: unknown[] }> => {
    isOver = true;
    await loops;
    return { sent, failures };
  };
  return { end, failures };
}

test("calls are spread over all replicas; one that stops is left and a new one found without a failed call", async () => {
  await using resources = new AsyncDisposableStack();
  const [first, second] = [await startReplica(), await startReplica()];
  resources.use(first.listener);
  places = [first.place, second.place];
  using channel = connectGrpc("replicas:///all");
  const load = callOn(unaryClient(BillingService, channel, 5_000));
  await until("both are asked", () => first.calls > 50 && second.calls > 50);
  const share = first.calls / (first.calls + second.calls);
  assert.ok(share > 0.3 && share < 0.7, `shares of ${first.calls} and ${second.calls}`);

  const third = await startReplica();
  resources.use(third.listener);
  places = [first.place, third.place];
  await second.listener[Symbol.asyncDispose]();
  const calls = second.calls;
  await until("the new one is asked", () => third.calls > 50);

  const fourth = await startReplica();
  resources.use(fourth.listener);
  places = [fourth.place];
  // All that are known stop: a call that the one refuses meets the other, and waits until the name stands for another.
  await Promise.all([first.listener[Symbol.asyncDispose](), third.listener[Symbol.asyncDispose]()]);
  await until("the last one is asked", () => fourth.calls > 50);
  const { sent, failures } = await load.end();
  assert.deepEqual(failures, []);
  assert.equal(second.calls, calls, "nobody asks one that has stopped");
  assert.equal(sent, first.calls + second.calls + third.calls + fourth.calls, "no call was made twice");
  assert.ok(questions >= 3, `${questions} questions`);
});
