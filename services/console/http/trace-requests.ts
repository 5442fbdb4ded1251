import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span } from "@opentelemetry/api";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { drawSpan } from "#shared/process/tracing.ts";

/** Traces a share of the requests, from 0 to 1, and what they ask of other services. */
export function traceRequests(app: FastifyInstance, share: number): void {
  if (share === 0) return;
  const spans = new WeakMap<FastifyRequest, Span>();
  app.addHook("onRequest", (request, _reply, done) => {
    const { traceparent } = request.headers;
    const given = typeof traceparent === "string" ? traceparent : undefined;
    const span = drawSpan("request", share, { kind: SpanKind.SERVER }, given);
    if (!span) return done();
    spans.set(request, span);
    context.with(trace.setSpan(ROOT_CONTEXT, span), done);
  });
  app.addHook("onResponse", (request, { statusCode }, done) => {
    const span = spans.get(request);
    // The pattern, not the path: that may hold the token of an invitation.
    const route = request.routeOptions.url ?? "none";
    span?.updateName(`${request.method} ${route}`).setAttributes({
      "http.request.method": request.method,
      "http.route": route,
      "http.response.status_code": statusCode,
    });
    if (statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR }).setAttribute("error.type", `${statusCode}`);
    span?.end();
    done();
  });
}
