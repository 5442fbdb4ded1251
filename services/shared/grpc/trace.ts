import { context, SpanKind, SpanStatusCode, trace, type Attributes, type Span } from "@opentelemetry/api";
import * as grpc from "@grpc/grpc-js";
import { toServiceError } from "../process/errors.ts";
import { contextOf, tracer, traceparentOf } from "../process/tracing.ts";

const header = "traceparent";

/** OpenTelemetry's semantic conventions for RPC. */
function attributesOf(path: string): Attributes {
  const [, service = "", method = ""] = path.split("/");
  return { "rpc.system": "grpc", "rpc.service": service, "rpc.method": method };
}

/** A call to another service under way: what is sent with it, and what is told of its end. */
export type TracedCall = { metadata: grpc.Metadata; end: (error?: unknown) => void };

const untraced = (): undefined => undefined;

/** Begins a call to another service, as part of what is being traced now, if anything is. */
export function traceCall(path: string): TracedCall {
  const metadata = new grpc.Metadata();
  if (!trace.getActiveSpan()) return { metadata, end: untraced };
  const span = tracer.startSpan(path.slice(1), { kind: SpanKind.CLIENT, attributes: attributesOf(path) });
  metadata.set(header, traceparentOf(span));
  return { metadata, end: (error) => endSpan(span, error) };
}

/** Answers a call of another service, within a span of its own if that one traces it. */
export function answerTraced<T>(path: string, metadata: grpc.Metadata, answer: () => Promise<T>): Promise<T> {
  const [traceparent] = metadata.get(header);
  const parent = traceparent === undefined ? undefined : contextOf(String(traceparent));
  if (!parent) return answer();
  const span = tracer.startSpan(path.slice(1), { kind: SpanKind.SERVER, attributes: attributesOf(path) }, parent);
  const answering = context.with(trace.setSpan(parent, span), answer);
  answering.then(
    () => endSpan(span),
    (error: unknown) => endSpan(span, error),
  );
  return answering;
}

function endSpan(span: Span, error?: unknown): void {
  if (error !== undefined) {
    const { code } = toServiceError(error);
    span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute("error.type", code);
  }
  span.end();
}
