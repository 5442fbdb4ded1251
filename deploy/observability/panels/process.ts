import type { Panel, Row } from "../dashboards.ts";
import { greatest, perSecond, quantile, sumOf } from "../promql.ts";

const lines = (expr: string, legend: string) => [{ expr, legend }];

/** What Node says of every process of a service. */
export function processRow(service: string): Row {
  const of = `service="${service}"`;
  const panels: Panel[] = [
    {
      title: "Event loop lag",
      description: "How late the event loop comes to its work: every call of the process waits as long. 200 ms page.",
      unit: "s",
      queries: [
        { expr: greatest("nodejs_eventloop_lag_p99_seconds", "instance", of), legend: "p99 {{instance}}" },
        { expr: greatest("nodejs_eventloop_lag_p50_seconds", "instance", of), legend: "p50 {{instance}}" },
      ],
    },
    {
      title: "CPU",
      description: "Cores in use. A process works on little more than one.",
      unit: "short",
      queries: lines(perSecond("process_cpu_seconds_total", "instance", of), "{{instance}}"),
    },
    {
      title: "Memory",
      description: "Resident memory, and the part of it that is JavaScript's heap; bodies are outside of the heap.",
      unit: "bytes",
      queries: [
        { expr: greatest("process_resident_memory_bytes", "instance", of), legend: "resident {{instance}}" },
        { expr: greatest("nodejs_heap_size_used_bytes", "instance", of), legend: "heap {{instance}}" },
      ],
    },
    {
      title: "Garbage collection",
      description: "Share of the time in which nothing else was done.",
      unit: "percentunit",
      queries: lines(perSecond("nodejs_gc_duration_seconds_sum", "instance, kind", of), "{{kind}} {{instance}}"),
    },
    {
      title: "Open files and sockets",
      description: "Descriptors in use, of those that the process may have.",
      unit: "percentunit",
      queries: lines(
        `${greatest("process_open_fds", "instance", of)} / ${greatest("process_max_fds", "instance", of)}`,
        "{{instance}}",
      ),
    },
  ];
  return { title: "Processes", panels };
}

/** What a service's gRPC server answers. */
export function grpcRow(service: string): Row {
  const of = `service="${service}"`;
  return {
    title: "gRPC",
    panels: [
      {
        title: "Calls of methods",
        description: "Calls that ended, by method and code. A session of a relay is one call for as long as it lasts.",
        unit: "reqps",
        queries: lines(perSecond("grpc_server_duration_seconds_count", "method, code", of), "{{method}} {{code}}"),
      },
      {
        title: "Time of methods, p99",
        description: "99 of 100 calls of a method end within this.",
        unit: "s",
        queries: lines(quantile(0.99, "grpc_server_duration_seconds", "method", of), "{{method}}"),
      },
    ],
  };
}

/** Which versions of a service run. */
export function versionPanel(service: string): Panel {
  return {
    title: "Processes by version",
    description: "How many processes of each version are scraped.",
    unit: "short",
    isNumber: true,
    queries: lines(sumOf("model_relay_build_info", "version, node_version", `service="${service}"`), "{{version}}"),
  };
}
