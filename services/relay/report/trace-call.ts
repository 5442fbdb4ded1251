import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Attributes } from "@opentelemetry/api";
import { drawSpan, traceparentOf, tracer, traceShareOf } from "#shared/process/tracing.ts";
import type { UsageBucket } from "#shared/money/pricing.ts";
import type { CallTimes } from "../call-times.ts";
import type { CallRequest } from "../http/exchange.ts";
import type { CallTrace, LiveCall } from "../live-call.ts";

/** What is traced of the calls of this process. */
export type TraceSettings = {
  /** Share of calls, from 0 to 1. */
  share: number;
  /** Whether spans carry OpenTelemetry's names for generative AI, which are not stable yet. */
  hasGenAi: boolean;
};

export function traceSettingsOf(config: {
  OTEL_EXPORTER_OTLP_ENDPOINT: string;
  OTEL_TRACES_SAMPLER_ARG: number;
  OTEL_SEMCONV_STABILITY_OPT_IN: string;
}): TraceSettings {
  return {
    share: traceShareOf(config),
    hasGenAi: config.OTEL_SEMCONV_STABILITY_OPT_IN.split(",").includes("gen_ai_latest_experimental"),
  };
}

/** Begins the trace of a call, or goes on with its caller's; undefined: this call is not traced. */
export function beginTrace(request: Pick<CallRequest, "headers">, { share }: TraceSettings): CallTrace | undefined {
  // Most calls of most installations end here.
  if (share === 0) return undefined;
  const given = request.headers["traceparent"];
  const span = drawSpan("call", share, { kind: SpanKind.SERVER }, typeof given === "string" ? given : undefined);
  return span && { span, traceId: span.spanContext().traceId, traceparent: traceparentOf(span) };
}

/** Runs what calls other services, so that they go on with the trace. */
export function withinTrace<T>(traced: CallTrace | undefined, work: () => T): T {
  return traced ? context.with(trace.setSpan(ROOT_CONTEXT, traced.span), work) : work();
}

/** How a call ended. `failure` is its name in the relay's table of errors. */
export type TracedCall = {
  rid: string;
  method: string;
  endpoint: string;
  status: number;
  end: string;
  times: CallTimes;
  call: LiveCall | undefined;
  failure: string | undefined;
};

// Times are of this process' own clock, which begins here; OpenTelemetry counts from 1970.
const epochMs = (monotonicMs: number): number => performance.timeOrigin + monotonicMs;

/** Ends a call's trace: its span, that of the hold and that of the upstream, all from the times that were taken. */
export function endTrace({ span }: CallTrace, ended: TracedCall, settings: TraceSettings): void {
  const { rid, method, endpoint, status, end, times, call, failure } = ended;
  const within = trace.setSpan(ROOT_CONTEXT, span);
  if (times.reservedAt > 0) {
    const startTime = epochMs(times.reservingAt);
    tracer.startSpan("reserve", { startTime }, within).end(epochMs(times.reservedAt));
  }
  if (call && times.sentAt > 0) {
    const attributes = { ...upstreamAttributes(call), ...(settings.hasGenAi && genAiAttributes(endpoint, call)) };
    const name = settings.hasGenAi ? `${operationOf(endpoint)} ${call.model.id}` : "upstream";
    const startTime = epochMs(times.sentAt);
    const asked = tracer.startSpan(name, { kind: SpanKind.CLIENT, startTime, attributes }, within);
    if (failure !== undefined) asked.setStatus({ code: SpanStatusCode.ERROR }).setAttribute("error.type", failure);
    if (times.answeredAt > 0) asked.addEvent("answered", epochMs(times.answeredAt));
    asked.end(times.upstreamEndedAt > 0 ? epochMs(times.upstreamEndedAt) : undefined);
  }
  if (times.firstByteAt > 0) span.addEvent("first byte", epochMs(times.firstByteAt));
  span.updateName(`${method} ${endpoint}`).setAttributes({
    "http.request.method": method,
    "http.route": endpoint,
    "http.response.status_code": status,
    "model_relay.request_id": rid,
    "model_relay.end": end,
  });
  // OpenTelemetry's semantic conventions for HTTP: of a server only 5xx are errors.
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute("error.type", failure ?? `${status}`);
  span.end();
}

const upstreamOf = ({ offered, upstream }: LiveCall) =>
  offered.routes.find((route) => route.upstream.name === upstream)?.upstream;

function upstreamAttributes(call: LiveCall): Attributes {
  const host = upstreamOf(call)?.baseUrl.hostname;
  return { "model_relay.upstream": call.upstream, ...(host !== undefined && { "server.address": host }) };
}

const operations: Record<string, string> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "chat",
  "/v1/messages": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
};

const operationOf = (endpoint: string): string => operations[endpoint] ?? "generate_content";

const providers: Record<string, string> = { "anthropic-messages": "anthropic", "gemini-generate": "gcp.gemini" };

const inputs: UsageBucket[] = ["inputTokens", "audioInputTokens", "imageInputTokens"];
const cacheWrites: UsageBucket[] = ["cacheWrite5mTokens", "cacheWrite1hTokens"];
const outputs: UsageBucket[] = ["outputTokens", "reasoningTokens", "audioOutputTokens", "imageOutputTokens"];

/** OpenTelemetry's semantic conventions for generative AI; input counts what came from a cache or went into one. */
function genAiAttributes(endpoint: string, call: LiveCall): Attributes {
  const { tally, upstreamModel } = call;
  const attributes: Attributes = {
    "gen_ai.operation.name": operationOf(endpoint),
    "gen_ai.provider.name": providers[upstreamOf(call)?.dialects[0] ?? ""] ?? "openai",
    "gen_ai.request.model": upstreamModel,
    ...(tally.modelServed !== undefined && { "gen_ai.response.model": tally.modelServed }),
  };
  const { usage } = tally;
  if (!usage) return attributes;
  const sum = (buckets: UsageBucket[]): number =>
    buckets.reduce((total, bucket) => total + Number(usage[bucket] ?? 0n), 0);
  return {
    ...attributes,
    "gen_ai.usage.input_tokens": sum([...inputs, ...cacheWrites, "cacheReadTokens"]),
    "gen_ai.usage.output_tokens": sum(outputs),
    "gen_ai.usage.cache_read.input_tokens": sum(["cacheReadTokens"]),
    "gen_ai.usage.cache_creation.input_tokens": sum(cacheWrites),
  };
}
