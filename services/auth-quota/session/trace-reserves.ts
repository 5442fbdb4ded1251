import { SpanKind } from "@opentelemetry/api";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { recordSpan } from "#shared/process/tracing.ts";
import type { SessionOperation } from "./session-wire.ts";
import { verdictName } from "../operation-names.ts";

/** Tells the traces of calls how long their holds took here; most calls have none. Milliseconds since 1970. */
export function traceReserves(
  operations: SessionOperation[],
  results: readonly { verdict?: Verdict }[],
  startTime: number,
): void {
  operations.forEach(({ traceparent }, index) => {
    if (traceparent === "") return;
    const verdict = verdictName(results[index]?.verdict ?? Verdict.UNSPECIFIED);
    recordSpan("authquota.v1 reserve", {
      kind: SpanKind.SERVER,
      traceparent,
      startTime,
      endTime: Date.now(),
      attributes: { "model_relay.verdict": verdict, "model_relay.batch_operations": operations.length },
    });
  });
}
