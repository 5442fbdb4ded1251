import assert from "node:assert/strict";
import { test } from "node:test";
import { context, SpanKind, trace } from "@opentelemetry/api";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "./errors.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "../grpc/grpc.ts";
import { createLog } from "./log.ts";
import { startCollector } from "../testing/collector.ts";
import { refusing } from "../testing/refusing.ts";
import { contextOf, drawSpan, recordSpan, startTracing, traceparentOf } from "./tracing.ts";

const log = createLog("test", "silent");
const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const given = `00-${traceId}-${parentId}-01`;

test("a traceparent is read as W3C Trace Context says, and anything else is none", () => {
  const read = (text: string | undefined) => trace.getSpanContext(contextOf(text) ?? context.active());
  assert.deepEqual(read(given), { traceId, spanId: parentId, traceFlags: 1, isRemote: true });
  assert.equal(read(`00-${traceId}-${parentId}-00`)?.traceFlags, 0);
  // A version of the future may say more.
  assert.equal(read(`cc-${traceId}-${parentId}-01-what-comes`)?.traceId, traceId);
  const zeros = "0".repeat(32);
  const wrong = [
    undefined,
    "",
    "nothing",
    `ff-${traceId}-${parentId}-01`,
    `00-${zeros}-${parentId}-01`,
    `00-${traceId}-${zeros.slice(16)}-01`,
    given.toUpperCase(),
    `${given}0`,
    ` ${given}`,
  ];
  for (const text of wrong) assert.equal(contextOf(text), undefined, text);
});

test("nothing is traced before tracing is started, and nothing without a collector", async () => {
  assert.equal(drawSpan("call", 1, {}), undefined);
  await using _ = await startTracing("test", "", log);
  assert.equal(drawSpan("call", 1, {}), undefined);
});

test("a trace goes on with its sender's, through gRPC, to a collector", async () => {
  await using collector = await startCollector();
  const refused = refusing(BillingService, () => new ServiceError("not_found", "none"));
  const implementation = { ...refused, getBalance: async () => ({ balanceNanos: 1n }) };
  const handlers = unaryHandlers(BillingService, implementation, log);
  await using server = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  const billing = unaryClient(BillingService, channel, 2_000);

  const tracing = await startTracing("test", `${collector.url}/`, log);
  assert.equal(drawSpan("never", 0, {}, given), undefined);
  const span = drawSpan("call", 1, { kind: SpanKind.SERVER }, given);
  assert.ok(span);
  assert.match(traceparentOf(span), new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  await context.with(trace.setSpan(context.active(), span), async () => {
    await billing.getBalance({ accountId: "a" });
    await assert.rejects(billing.getCall({}), { code: "not_found" });
  });
  const startTime = Date.now();
  recordSpan("booked", { traceparent: traceparentOf(span), startTime, endTime: startTime + 2_000 });
  // Without a trace around it a call has no spans.
  await billing.getBalance({ accountId: "a" });
  span.end();
  await tracing[Symbol.asyncDispose]();

  const { spanId } = span.spanContext();
  const found = collector.spans.map(({ name, kind, status }) => `${name} ${kind} ${status}`).toSorted();
  assert.deepEqual(found, [
    "billing.v1.BillingService/GetBalance 2 0",
    "billing.v1.BillingService/GetBalance 3 0",
    "billing.v1.BillingService/GetCall 2 2",
    "billing.v1.BillingService/GetCall 3 2",
    "booked 1 0",
    "call 2 0",
  ]);
  for (const received of collector.spans) assert.equal(received.traceId, traceId, received.name);
  const named = (name: string, kind: number) =>
    collector.spans.find((received) => received.name === name && received.kind === kind);
  const asked = named("billing.v1.BillingService/GetCall", 3);
  assert.equal(named("call", 2)?.parentSpanId, parentId);
  assert.equal(asked?.parentSpanId, spanId);
  assert.equal(named("billing.v1.BillingService/GetCall", 2)?.parentSpanId, asked?.spanId);
  assert.equal(asked?.attributes["error.type"], "not_found");
  const booked = named("booked", 1);
  assert.equal(booked?.parentSpanId, spanId);
  assert.deepEqual(
    [booked?.startTimeUnixNano, booked?.endTimeUnixNano],
    [`${startTime}000000`, `${startTime + 2_000}000000`],
  );
});
