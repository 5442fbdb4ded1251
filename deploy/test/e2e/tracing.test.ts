import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startCollector, type Collector, type ReceivedSpan } from "#shared/testing/collector.ts";
import { until } from "#shared/testing/until.ts";
import { startWorld, type Customer, type World } from "./world.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";

describe("traces", () => {
  let world: World;
  let collector: Collector;
  let customer: Customer;
  const stack = new AsyncDisposableStack();

  before(async () => {
    collector = stack.use(await startCollector());
    const traced = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_SAMPLER_ARG: "1" };
    const relay = { ...traced, OTEL_SEMCONV_STABILITY_OPT_IN: "gen_ai_latest_experimental" };
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
    const serviceEnvironment = { relay, "auth-quota": endpoint, billing: endpoint, "video-task": endpoint };
    world = stack.use(await startWorld({ serviceEnvironment }));
    customer = await world.createCustomer();
  });
  after(() => stack.disposeAsync());

  const ask = async (body: object, trace: string): Promise<Response> => {
    const answer = await fetch(`${world.relayUrl}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${customer.secret}`,
        "content-type": "application/json",
        traceparent: `00-${trace}-${parentId}-00`,
      },
      body: JSON.stringify({ messages: [{ role: "user", content: "hello" }], ...body }),
    });
    await answer.arrayBuffer();
    return answer;
  };
  const spansOf = (trace: string, wanted: string[]): Promise<ReceivedSpan[]> =>
    until(`the spans ${wanted.join()}`, () => {
      const found = collector.spans.filter((span) => span.traceId === trace);
      const missing = wanted.filter((name) => !found.some((span) => span.name === name));
      if (missing.length > 0) throw new Error(`${missing.join()} not yet`);
      return found;
    });

  test("one trace leads from the caller through relay, auth-quota and NATS to the ledger", async () => {
    const answer = await ask({ model: "test-model" }, traceId);
    assert.equal(answer.status, 200);
    const spans = await spansOf(traceId, [
      "POST /v1/chat/completions",
      "reserve",
      "chat test-model",
      "authquota.v1 reserve",
      "process usage.v1.recorded",
    ]);
    const named = (name: string): ReceivedSpan => {
      const [span, ...more] = spans.filter((each) => each.name === name);
      assert.ok(span && more.length === 0, `${name} among ${spans.map((each) => each.name).join()}`);
      return span;
    };
    const call = named("POST /v1/chat/completions");
    assert.equal(call.service, "relay");
    // A caller's trace is gone on with, whether or not it says that it is sampled.
    assert.equal(call.parentSpanId, parentId);
    assert.equal(call.attributes["model_relay.request_id"], answer.headers.get("x-request-id"));
    assert.equal(call.attributes["http.response.status_code"], 200);
    const upstream = named("chat test-model");
    assert.equal(upstream.kind, 3);
    assert.equal(upstream.attributes["gen_ai.operation.name"], "chat");
    assert.equal(upstream.attributes["gen_ai.provider.name"], "openai");
    assert.ok(Number(upstream.attributes["gen_ai.usage.output_tokens"]) > 0);
    const decided = named("authquota.v1 reserve");
    assert.equal(decided.service, "auth-quota");
    assert.equal(decided.attributes["model_relay.verdict"], "ok");
    const booked = named("process usage.v1.recorded");
    assert.equal(booked.service, "billing");
    for (const span of [named("reserve"), upstream, decided, booked]) assert.equal(span.parentSpanId, call.spanId);
    for (const span of spans) assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name);
    assert.ok(BigInt(booked.startTimeUnixNano) > BigInt(call.startTimeUnixNano));
  });

  test("a call that fails says so in its trace, and has no secret in it", async () => {
    const trace = traceId.replace("0a", "0b");
    await ask({ model: "no-such-model" }, trace);
    const [call] = await spansOf(trace, ["POST /v1/chat/completions"]);
    assert.equal(call?.attributes["http.response.status_code"], 503);
    assert.equal(call?.attributes["error.type"], "model_unavailable");
    assert.equal(call?.status, 2);
    const all = JSON.stringify(collector.spans);
    assert.equal(all.includes(customer.secret), false);
    assert.equal(all.includes("hello"), false);
  });
});
