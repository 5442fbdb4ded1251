import assert from "node:assert/strict";
import { test } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { errorTable, ServiceError } from "../process/errors.ts";
import { serverStreamHandlers, streamingClient, type ServerStreamHandlers } from "./stream.ts";
import { connectGrpc, serveGrpc } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { until } from "../testing/until.ts";

const log = createLog("test", "silent");

type Handlers = ServerStreamHandlers<typeof BillingService>;

async function* nothing() {}

async function start(given: Partial<Handlers>, idleMs = 5_000) {
  const resources = new AsyncDisposableStack();
  const unasked = { exportLines: nothing, replay: nothing, listCloseLines: nothing, restoreDay: nothing };
  const handlers: Handlers = { ...unasked, ...given };
  const service = serverStreamHandlers(BillingService, handlers, log);
  const listen = { host: "127.0.0.1", port: 0, drainMs: 100 };
  const server = resources.use(await serveGrpc([[BillingService, service]], listen));
  const channel = resources.use(connectGrpc(`127.0.0.1:${server.port}`));
  const billing = streamingClient(BillingService, channel, idleMs);
  return { billing, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

async function collect<T>(responses: AsyncIterable<T>): Promise<T[]> {
  return await Array.fromAsync(responses);
}

test("responses come in their order, with int64 exact; none is an empty stream", async () => {
  await using app = await start({
    async *replay() {
      for (let events = 2n ** 62n; events < 2n ** 62n + 3n; events += 1n) yield { events };
    },
  });
  assert.deepEqual(
    (await collect(app.billing.replay({}))).map(({ events }) => events),
    [2n ** 62n, 2n ** 62n + 1n, 2n ** 62n + 2n],
  );
  assert.deepEqual(await collect(app.billing.exportLines({})), []);
});

test("every row of the error table crosses a stream intact, also behind responses", async () => {
  let thrown: Error = new Error("never");
  await using app = await start({
    async *replay() {
      yield { events: 1n };
      throw thrown;
    },
  });
  for (const code of Object.keys(errorTable) as (keyof typeof errorTable)[]) {
    thrown = new ServiceError(code, `words for ${code}`);
    const got: bigint[] = [];
    const reading = (async () => {
      for await (const { events } of app.billing.replay({})) got.push(events);
    })();
    await assert.rejects(reading, { name: "ServiceError", code, message: `words for ${code}` });
    assert.deepEqual(got, [1n]);
  }
  thrown = new Error("password=hunter2");
  await assert.rejects(collect(app.billing.replay({})), { code: "internal", message: "internal error" });
});

test("a caller that reads slowly holds the handler back, and one that leaves ends it", async () => {
  let made = 0;
  let isEnded = false;
  let isGone = false;
  const rid = "r".repeat(100_000);
  await using app = await start({
    async *replay(_request, gone) {
      gone.addEventListener("abort", () => (isGone = true));
      try {
        for (;;) {
          made += 1;
          yield { missingRids: [rid] };
        }
      } finally {
        isEnded = true;
      }
    },
  });
  for await (const _response of app.billing.replay({})) {
    let before = -1;
    await until("the handler waits", () => {
      const isStill = made === before;
      before = made;
      return isStill;
    });
    // What fits the windows and buffers of both sides, which is far from all that the handler would make.
    assert.ok(made < 300, `${made} responses made for one that was read`);
    break;
  }
  await until("the handler has ended", () => isEnded && isGone);
});

test("a handler that waits for something hears that its caller is gone", async () => {
  const gone = Promise.withResolvers<void>();
  await using app = await start({
    async *replay(_request, signal) {
      yield { events: 1n };
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      gone.resolve();
    },
  });
  for await (const _response of app.billing.replay({})) break;
  await gone.promise;
});

test("a stream that says nothing is given up, a service that is not there is unavailable", async () => {
  await using app = await start({ replay: (_request, gone) => silence(gone) }, 50);
  await assert.rejects(collect(app.billing.replay({})), { code: "unavailable", message: /nothing came for 0.05 s/ });
  using nobody = connectGrpc("127.0.0.1:1");
  await assert.rejects(collect(streamingClient(BillingService, nobody, 5_000).replay({})), { code: "unavailable" });
});

async function* silence(gone: AbortSignal) {
  await new Promise<void>((resolve) => gone.addEventListener("abort", () => resolve()));
  yield {};
}
