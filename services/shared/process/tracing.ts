import {
  context,
  ROOT_CONTEXT,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanOptions,
} from "@opentelemetry/api";
import type { Logger } from "./log.ts";

/** Until tracing is started, its spans are no spans and cost next to nothing. */
export const tracer = trace.getTracer("model-relay");

// A collector that is away must not take the service's memory or its time to stop.
const queue = { maxQueueSize: 4_096, maxExportBatchSize: 512, scheduledDelayMillis: 1_000, exportTimeoutMillis: 5_000 };

/** Sends the spans of this process to the collector at `endpoint`, if there is one; disposal sends the last ones. */
export async function startTracing(service: string, endpoint: string, log: Logger): Promise<AsyncDisposable> {
  if (endpoint === "") return { [Symbol.asyncDispose]: async () => undefined };
  // Loaded only where it is used: it takes a tenth of a second of every start.
  const [sdk, { OTLPTraceExporter }, { AsyncLocalStorageContextManager }, { resourceFromAttributes }] =
    await Promise.all([
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/context-async-hooks"),
      import("@opentelemetry/resources"),
    ]);
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/$/, "")}/v1/traces` });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ "service.name": service, "service.namespace": "model-relay" }),
    // Whoever begins a trace has drawn lots before.
    sampler: new sdk.AlwaysOnSampler(),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter, ...queue })],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  log.info({ endpoint: new URL(endpoint).origin }, "exporting traces");
  return { [Symbol.asyncDispose]: () => provider.shutdown() };
}

/** The share of calls that a service which is called from outside traces: none without a collector. */
export const traceShareOf = (config: {
  OTEL_EXPORTER_OTLP_ENDPOINT: string;
  OTEL_TRACES_SAMPLER_ARG: number;
}): number => (config.OTEL_EXPORTER_OTLP_ENDPOINT === "" ? 0 : config.OTEL_TRACES_SAMPLER_ARG);

/** The W3C trace context of a span, as the header `traceparent`. */
export function traceparentOf(span: Span): string {
  const { traceId, spanId } = span.spanContext();
  return `00-${traceId}-${spanId}-01`;
}

// W3C Trace Context, section 3.2: higher versions may add to it, ff is none, zeros are no ids.
const traceparentPattern = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:$|-)/;

/** The context that a `traceparent` names; undefined when it is none. */
export function contextOf(traceparent: string | undefined): Context | undefined {
  const match = traceparentPattern.exec(traceparent ?? "");
  const [, traceId, spanId, flags] = match ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  const traceFlags = Number.parseInt(flags ?? "", 16) & TraceFlags.SAMPLED;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

/** What has been done. */
export type RecordedSpan = SpanOptions & { traceparent: string; startTime: number; endTime: number };

/**
 * Begins the span of something that came from outside, in the share of cases that are traced; undefined in the others.
 * The sender's trace is gone on with, but whether to trace is not the sender's to say: they are anybody.
 */
export function drawSpan(name: string, share: number, options: SpanOptions, traceparent?: string): Span | undefined {
  if (share === 0 || Math.random() >= share) return undefined;
  const span = tracer.startSpan(name, options, contextOf(traceparent) ?? ROOT_CONTEXT);
  return span.isRecording() ? span : undefined;
}

/** Records what was done for a call of another service, if that one traces it. Times in milliseconds since 1970. */
export function recordSpan(name: string, recorded: RecordedSpan): void {
  const { traceparent, startTime, endTime, ...options } = recorded;
  const parent = contextOf(traceparent);
  if (parent) tracer.startSpan(name, { ...options, startTime }, parent).end(endTime);
}
