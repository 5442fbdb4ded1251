import { SpanKind } from "@opentelemetry/api";
import { recordSpan } from "#shared/process/tracing.ts";
import { usageSubject } from "#shared/stores/usage-stream.ts";
import type { NewLine } from "../records/plan.ts";
import { consumerName } from "./stream.ts";

/** Tells the traces of calls when they were booked; most calls have none. Milliseconds since 1970. */
export function traceLines(lines: readonly NewLine[], startTime: number, endTime: number): void {
  for (const { read } of lines) {
    const { traceparent } = read.event;
    if (traceparent === "") continue;
    // OpenTelemetry's semantic conventions for messaging.
    const attributes = {
      "messaging.system": "nats",
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.destination.name": usageSubject,
      "messaging.consumer.group.name": consumerName,
      "messaging.batch.message_count": lines.length,
    };
    recordSpan(`process ${usageSubject}`, { kind: SpanKind.CONSUMER, traceparent, startTime, endTime, attributes });
  }
}
