import * as grpc from "@grpc/grpc-js";
import type { Registry } from "prom-client";
import { histograms } from "../metrics/metrics.ts";

const nameOfCode = (code: grpc.status): string => grpc.status[code] ?? "UNKNOWN";

/** Declares how long gRPC calls take that this process answers, and gives what measures them. */
export function grpcMetrics(registry: Registry): grpc.ServerInterceptor {
  const seconds = histograms(registry, {
    name: "grpc_server_duration_seconds",
    help: "Duration of gRPC calls, by method and status; of streams, from start to end.",
    labels: ["method", "code"],
    // Callers may name any method.
    unboundedLabels: ["method"],
    maxSeries: 150,
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
  });
  return ({ path: method }, call) => {
    const startedAt = performance.now();
    let isOver = false;
    const end = (code: grpc.status): void => {
      if (isOver) return;
      isOver = true;
      seconds.observe({ method, code: nameOfCode(code) }, (performance.now() - startedAt) / 1_000);
    };
    const listener = new grpc.ServerListenerBuilder().withOnCancel(() => end(grpc.status.CANCELLED)).build();
    return new grpc.ServerInterceptingCall(call, {
      start: (next) => next(listener),
      sendStatus: (status, next) => {
        end(status.code ?? grpc.status.OK);
        next(status);
      },
    });
  };
}
