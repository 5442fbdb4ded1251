import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { CircuitState, UpstreamHealth } from "./upstream-health.ts";

const secondsBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const overheadBuckets = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];

function createUpstreamMetrics(registers: Registry[]) {
  return {
    firstByteSeconds: new Histogram({
      name: "relay_upstream_first_byte_seconds",
      help: "From sending to the head of the upstream's answer.",
      labelNames: ["upstream"],
      buckets: secondsBuckets,
      registers,
    }),
    upstreamAttempts: new Counter({
      name: "relay_upstream_attempts_total",
      help: "Times an upstream was asked, by what became of it.",
      labelNames: ["upstream", "outcome"],
      registers,
    }),
    upstreamSkips: new Counter({
      name: "relay_upstream_skips_total",
      help: "Times an upstream was passed over: busy, cooling down or with an open circuit.",
      labelNames: ["upstream", "reason"],
      registers,
    }),
    coolDowns: new Counter({
      name: "relay_upstream_cool_downs_total",
      help: "Times an upstream was left alone because of what it answered.",
      labelNames: ["upstream", "reason"],
      registers,
    }),
  };
}

function createUsageMetrics(registers: Registry[]) {
  return {
    usageMismatches: new Counter({
      name: "relay_usage_mismatches_total",
      help: "Answers whose token counts do not add up to the upstream's own total.",
      labelNames: ["upstream"],
      registers,
    }),
    unpricedUnits: new Counter({
      name: "relay_unpriced_units_total",
      help: "Units that were served and not charged, because the model has no price for them.",
      labelNames: ["bucket", "upstream"],
      registers,
    }),
    freeCalls: new Counter({
      name: "relay_free_calls_total",
      help: "Calls that cost nothing although units were used.",
      labelNames: ["upstream"],
      registers,
    }),
  };
}

/** Every metric of the relay, declared once. None has a key, an account or a request id as a label. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  return {
    calls: new Counter({
      name: "relay_calls_total",
      help: "Calls answered, by endpoint, status and how they ended.",
      labelNames: ["endpoint", "status", "end"],
      registers,
    }),
    callSeconds: new Histogram({
      name: "relay_call_duration_seconds",
      help: "From the head of the request to the end of the answer.",
      labelNames: ["endpoint", "streamed"],
      buckets: secondsBuckets,
      registers,
    }),
    overheadSeconds: new Histogram({
      name: "relay_overhead_seconds",
      help: "The relay's own share of the time before the upstream is called, by phase.",
      labelNames: ["phase"],
      buckets: overheadBuckets,
      registers,
    }),
    ...createUpstreamMetrics(registers),
    ...createUsageMetrics(registers),
    droppedFields: new Counter({
      name: "relay_dropped_fields_total",
      help: "Request fields that could not be carried to the upstream's dialect.",
      labelNames: ["field"],
      registers,
    }),
    liveCalls: new Gauge({ name: "relay_live_calls", help: "Calls that are being answered.", registers }),
    charged: new Counter({ name: "relay_charged_nanos_total", help: "Nano-USD charged.", registers }),
    overHold: new Counter({
      name: "relay_charges_over_hold_total",
      help: "Charges that exceeded what was held.",
      registers,
    }),
    conflicts: new Counter({
      name: "relay_settle_conflicts_total",
      help: "Settles refused as conflicting.",
      registers,
    }),
    published: new Counter({
      name: "relay_usage_published_total",
      help: "Usage records acknowledged by JetStream.",
      registers,
    }),
    publishFailures: new Counter({
      name: "relay_usage_publish_failures_total",
      help: "Publishes that failed and were tried again.",
      registers,
    }),
    publishDropped: new Counter({
      name: "relay_usage_publish_dropped_total",
      help: "Usage records left to the spool and the outbox because too many waited.",
      registers,
    }),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Declares the gauges that are read at scrape time. */
export function watchGauges(
  registry: Registry,
  read: {
    spoolBytes: () => number;
    spoolRecords: () => number;
    publishWaiting: () => number;
    quotaQueued: () => number;
    bodyBytes: () => number;
    submissions: () => number;
    downloads: () => number;
  },
): void {
  const gauges: [string, string, () => number][] = [
    ["relay_spool_bytes", "Bytes of the spool.", read.spoolBytes],
    ["relay_spool_records", "Usage records that are not known to be booked.", read.spoolRecords],
    ["relay_usage_waiting", "Usage records that no PubAck has confirmed.", read.publishWaiting],
    ["relay_body_bytes", "Bytes of request bodies above 64 KiB that are kept or announced.", read.bodyBytes],
    ["relay_video_submissions", "Submissions of videos that have not ended or are not concluded.", read.submissions],
    ["relay_video_downloads", "Files of videos on their way to callers.", read.downloads],
    ["relay_quota_queued", "Operations that auth-quota has not answered.", read.quotaQueued],
  ];
  for (const [name, help, value] of gauges) {
    const gauge: Gauge = new Gauge({ name, help, registers: [registry], collect: () => gauge.set(value()) });
  }
}

const circuitValues: Record<CircuitState, number> = { closed: 0, "half-open": 1, open: 2 };

/** Declares the gauges of the upstreams that were asked since the catalog last changed them. */
export function watchUpstreams(registry: Registry, { list }: Pick<UpstreamHealth, "list">): void {
  const declare = (name: string, help: string, value: (upstream: ReturnType<typeof list>[number]) => number): void => {
    const collect = (): void => {
      gauge.reset();
      for (const upstream of list(performance.now())) gauge.set({ upstream: upstream.name }, value(upstream));
    };
    const gauge: Gauge<"upstream"> = new Gauge({
      name,
      help,
      labelNames: ["upstream"],
      registers: [registry],
      collect,
    });
  };
  declare("relay_upstream_circuit", "0: closed; 1: half open; 2: open.", ({ circuit }) => circuitValues[circuit]);
  declare("relay_upstream_live_calls", "Calls under way at an upstream.", ({ underWay }) => underWay);
}
