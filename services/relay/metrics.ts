import type { Registry } from "prom-client";
import { createFailingAccounts } from "./failing-accounts.ts";
import { createRecentCalls } from "./recent-calls.ts";
import { counter, counters, gauge, histogram, histograms } from "#shared/metrics/metrics.ts";

const secondsBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const overheadBuckets = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const gapBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const holdBuckets = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600];
const publishBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];

// Upstreams and models are the operator's, as many as the catalog has; with the label sets below all metrics together
// stay under 10,000 series, of which a bucket of a histogram is one.
export const mostUpstreams = 100;

function createTimeMetrics(registry: Registry) {
  const overhead = histograms(registry, {
    name: "relay_overhead_seconds",
    help:
      "The relay's own share of a call, without the caller's and the upstream's time. prepare: from the body to " +
      "asking the upstream, without reserve; first_byte: from the upstream's part of it to the caller's first byte, " +
      "for a whole answer with settle; settle: charging.",
    labels: ["phase"],
    buckets: overheadBuckets,
  });
  return {
    callSeconds: histograms(registry, {
      name: "relay_call_duration_seconds",
      help: "From the head of the request to the end of the answer.",
      labels: ["endpoint", "streamed"],
      unboundedLabels: ["endpoint"],
      maxSeries: 40,
      buckets: secondsBuckets,
    }),
    timeToFirstByte: histograms(registry, {
      name: "relay_time_to_first_byte_seconds",
      help: "From the head of the request to the first byte of the answer's body, the upstream's time included.",
      labels: ["endpoint", "streamed"],
      unboundedLabels: ["endpoint"],
      maxSeries: 30,
      buckets: secondsBuckets,
    }),
    addedLatency: histograms(registry, {
      name: "relay_added_latency_seconds",
      help: "What the relay added before the caller's first byte: reserve, prepare and first_byte of its overhead.",
      labels: ["endpoint"],
      unboundedLabels: ["endpoint"],
      maxSeries: 20,
      buckets: overheadBuckets,
    }),
    overhead: {
      reserve: overhead.of({ phase: "reserve" }),
      prepare: overhead.of({ phase: "prepare" }),
      firstByte: overhead.of({ phase: "first_byte" }),
      settle: overhead.of({ phase: "settle" }),
    },
  };
}

function createCallMetrics(registry: Registry) {
  return {
    calls: counters(registry, {
      name: "relay_calls_total",
      help: "Calls answered, by endpoint, status, end cause, and who caused it.",
      labels: ["endpoint", "status", "end", "outcome"],
      unboundedLabels: ["endpoint", "status"],
      maxSeries: 600,
    }),
    modelCalls: counters(registry, {
      name: "relay_model_calls_total",
      help: "Calls for which money was held, by model and upstream as the catalog names them.",
      labels: ["model", "upstream", "outcome"],
      unboundedLabels: ["model", "upstream"],
      maxSeries: 1_130,
    }),
    failedCall: createFailingAccounts(registry),
    recentCalls: createRecentCalls(),
    connectionRefusals: counter(registry, {
      name: "relay_connection_refusals_total",
      help: "Connections closed at once because their address had too many open.",
    }),
    omittedRefusals: counter(registry, {
      name: "relay_refusals_omitted_total",
      help: "Refused calls that are not in the activity of their accounts: too many keys at once, or auth-quota away.",
    }),
    droppedFields: counters(registry, {
      name: "relay_dropped_fields_total",
      help: "Request fields that could not be carried to the upstream's dialect.",
      labels: ["field"],
      unboundedLabels: ["field"],
      maxSeries: 100,
    }),
  };
}

function createStreamMetrics(registry: Registry) {
  return {
    gaps: histograms(registry, {
      name: "relay_inter_chunk_seconds",
      help: "Time between two pieces of a stream; gaps in which the caller did not read are excluded.",
      labels: ["upstream"],
      unboundedLabels: ["upstream"],
      maxSeries: mostUpstreams,
      buckets: gapBuckets,
    }),
    liveStreams: gauge(registry, {
      name: "relay_live_streams",
      help: "Streams under way, those included whose callers have left.",
    }),
    orphanEnds: counters(registry, {
      name: "relay_orphan_ends_total",
      help:
        "Calls whose callers left while the upstream was at work, by how reading their answers on ended, or why they " +
        "were not read on: abort, account_full, process_full.",
      labels: ["upstream", "reason"],
      unboundedLabels: ["upstream"],
      maxSeries: 450,
    }),
    streamEnds: counters(registry, {
      name: "relay_stream_ends_total",
      help: "Streams ended, by end cause.",
      labels: ["upstream", "reason"],
      unboundedLabels: ["upstream"],
      maxSeries: 450,
    }),
    streamBytes: counter(registry, {
      name: "relay_stream_bytes_total",
      help: "Bytes of streams written to callers, without HTTP framing.",
    }),
    backpressure: counter(registry, {
      name: "relay_backpressure_seconds_total",
      help: "Time for which streams were stalled because their callers did not read.",
    }),
  };
}

function createSocketMetrics(registry: Registry) {
  return {
    sockets: gauge(registry, { name: "relay_sockets", help: "WebSockets open." }),
    socketKeptBytes: gauge(registry, {
      name: "relay_socket_kept_bytes",
      help: "Bytes of the conversations kept for WebSockets.",
    }),
    socketTurns: counters(registry, {
      name: "relay_socket_turns_total",
      help: "Turns on WebSockets: call, warm_up (nothing is generated), and refused before they were calls.",
      labels: ["kind"],
    }),
    upstreamSockets: gauge(registry, {
      name: "relay_upstream_sockets",
      help: "WebSockets to upstreams open for turns.",
    }),
    upstreamTurns: counters(registry, {
      name: "relay_upstream_socket_turns_total",
      help: "Turns that had a WebSocket to their upstream: continued by id, sent whole, or sent over http after all.",
      labels: ["kind"],
    }),
    socketEnds: counters(registry, {
      name: "relay_socket_ends_total",
      help: "WebSockets closed, by reason.",
      labels: ["reason"],
    }),
  };
}

function createUpstreamMetrics(registry: Registry) {
  const byUpstream = (name: string, help: string) =>
    counters(registry, { name, help, labels: ["upstream"], unboundedLabels: ["upstream"], maxSeries: mostUpstreams });
  const byUpstreamAnd = <L extends string>(label: L, maxSeries: number, name: string, help: string) =>
    counters(registry, { name, help, labels: ["upstream", label], unboundedLabels: ["upstream"], maxSeries });
  return {
    firstByteSeconds: histograms(registry, {
      name: "relay_upstream_first_byte_seconds",
      help: "From sending to the head of the upstream's answer.",
      labels: ["upstream"],
      unboundedLabels: ["upstream"],
      maxSeries: mostUpstreams,
      buckets: secondsBuckets,
    }),
    upstreamAttempts: byUpstreamAnd(
      "outcome",
      600,
      "relay_upstream_attempts_total",
      "Attempts at an upstream, by outcome.",
    ),
    upstreamSkips: byUpstreamAnd(
      "reason",
      300,
      "relay_upstream_skips_total",
      "Times an upstream was skipped: busy, cooling down or with an open circuit.",
    ),
    coolDowns: byUpstreamAnd(
      "reason",
      200,
      "relay_upstream_cool_downs_total",
      "Cool-downs of an upstream, by the answer that caused them.",
    ),
    faults: byUpstreamAnd(
      "reason",
      500,
      "relay_upstream_faults_total",
      "Faults of upstreams: no connection, no answer, an answer other than 200, or an unreadable one.",
    ),
    failovers: byUpstream("relay_failovers_total", "Times another upstream was used because this one failed."),
    usageMismatches: byUpstream(
      "relay_usage_mismatches_total",
      "Answers whose token counts do not add up to the upstream's total, or report no output although " +
        "there was text.",
    ),
    impossibleUsage: byUpstream(
      "relay_impossible_usage_total",
      "Calls with impossible counts from the upstream; possible counts were charged.",
    ),
    freeCalls: byUpstream("relay_free_calls_total", "Calls that cost nothing although units were used."),
    unpricedModels: byUpstream(
      "relay_unpriced_models_total",
      "Calls of which a model that is not in the catalog ran a part; it was charged as the called " + "model.",
    ),
    unpricedUnits: counters(registry, {
      name: "relay_unpriced_units_total",
      help: "Units that were served and not charged, because the model has no price for them.",
      labels: ["bucket", "upstream"],
      unboundedLabels: ["upstream"],
      maxSeries: 300,
    }),
  };
}

function createMoneyMetrics(registry: Registry) {
  const one = (name: string, help: string) => counter(registry, { name, help });
  const holdSeconds = histograms(registry, {
    name: "relay_hold_seconds",
    help: "Age of a hold when it ended, by whether it was charged or released.",
    labels: ["outcome"],
    buckets: holdBuckets,
  });
  const lostCharges = counters(registry, {
    name: "relay_lost_charges_total",
    help: "Booked charges that the ledger has lost, by whether the spool had them to be told again, or they are gone.",
    labels: ["outcome"],
  });
  return {
    charged: one("relay_charged_nanos_total", "Nano-USD charged."),
    overHold: one("relay_charges_over_hold_total", "Charges that exceeded what was held."),
    leasedCalls: one("relay_leased_calls_total", "Calls admitted within a lease."),
    recalledLeases: one("relay_leases_recalled_total", "Leases that auth-quota asked back before their end."),
    conflicts: one("relay_settle_conflicts_total", "Settles refused as conflicting."),
    published: one("relay_usage_published_total", "Usage records acknowledged by JetStream."),
    publishFailures: one("relay_usage_publish_failures_total", "Publishes that failed and were retried."),
    publishDropped: one(
      "relay_usage_publish_dropped_total",
      "Usage records left to the spool and the outbox because too many waited.",
    ),
    lostCharges: { toldAgain: lostCharges.of({ outcome: "told_again" }), gone: lostCharges.of({ outcome: "gone" }) },
    publishSeconds: histogram(registry, {
      name: "relay_usage_publish_seconds",
      help: "From the first try to publish a batch of usage records to its PubAck.",
      buckets: publishBuckets,
    }),
    holdSeconds: { charged: holdSeconds.of({ outcome: "charged" }), released: holdSeconds.of({ outcome: "released" }) },
  };
}

function createThreadMetrics(registry: Registry) {
  return {
    threadWaitSeconds: histogram(registry, {
      name: "relay_large_wait_seconds",
      help: "How long a large body or answer waited for a thread that reads it.",
      buckets: secondsBuckets,
    }),
    threadWorkSeconds: histogram(registry, {
      name: "relay_large_work_seconds",
      help: "How long a thread worked on a large body or answer.",
      buckets: secondsBuckets,
    }),
    threadRefusals: counter(registry, {
      name: "relay_large_refused_total",
      help: "Calls refused with 503 because too many large bodies waited for a thread.",
    }),
    threadEnds: counter(registry, {
      name: "relay_large_thread_ends_total",
      help: "Threads that ended while they worked on a large body, for want of memory or by a fault.",
    }),
  };
}

/** Every metric of the relay, declared once. None has a key, an account or a request id as a label. */
export function createMetrics(registry: Registry) {
  return {
    ...createTimeMetrics(registry),
    ...createCallMetrics(registry),
    ...createStreamMetrics(registry),
    ...createSocketMetrics(registry),
    ...createUpstreamMetrics(registry),
    ...createMoneyMetrics(registry),
    ...createThreadMetrics(registry),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** What is read when Prometheus asks. */
export type Readings = {
  liveCalls: () => number;
  orphans: () => number;
  isDraining: () => boolean;
  isQuotaConnected: () => boolean;
  clockAheadMs: () => number;
  spoolBytes: () => number;
  spoolMaxBytes: () => number;
  spoolRecords: () => number;
  spoolOldestMs: () => number;
  publishWaiting: () => number;
  publishOldestMs: () => number;
  quotaQueued: () => number;
  leases: () => number;
  bodyBytes: () => number;
  threadWaiting: () => number;
  replyBytes: () => number;
  repliesWaiting: () => number;
  submissions: () => number;
  downloads: () => number;
};

/** Declares the gauges that are read at scrape time. */
export function watchGauges(registry: Registry, read: Readings): void {
  const watched: [string, string, () => number][] = [
    ["relay_live_calls", "Calls that hold money now.", read.liveCalls],
    ["relay_orphans", "Calls whose answers are read on after their callers left.", read.orphans],
    ["relay_draining", "1 while the relay is stopping.", () => Number(read.isDraining())],
    ["relay_quota_connected", "1 while auth-quota answers on the stream to it.", () => Number(read.isQuotaConnected())],
    [
      "relay_clock_ahead_seconds",
      "How far this machine's clock is ahead of Redis'; negative: behind.",
      () => read.clockAheadMs() / 1_000,
    ],
    ["relay_spool_bytes", "Bytes of the spool.", read.spoolBytes],
    ["relay_spool_max_bytes", "Size of the spool above which the relay accepts no calls.", read.spoolMaxBytes],
    ["relay_spool_records", "Usage records that are not known to be booked.", read.spoolRecords],
    ["relay_spool_oldest_seconds", "Age of the oldest of them.", () => read.spoolOldestMs() / 1_000],
    ["relay_usage_waiting", "Usage records that no PubAck has confirmed.", read.publishWaiting],
    ["relay_usage_oldest_waiting_seconds", "How long the oldest of them waits.", () => read.publishOldestMs() / 1_000],
    [
      "relay_body_bytes",
      "Bytes of request bodies above 64 KiB that have arrived and are kept, and what reading them as objects takes.",
      read.bodyBytes,
    ],
    ["relay_large_waiting", "Large bodies and answers that wait for a thread which reads them.", read.threadWaiting],
    [
      "relay_reply_bytes",
      "Bytes of answers above 64 KiB that come whole, until their callers have read them.",
      read.replyBytes,
    ],
    [
      "relay_replies_waiting",
      "Answers that wait for room among these; their upstreams are not read.",
      read.repliesWaiting,
    ],
    ["relay_video_submissions", "Submissions of videos that have not ended or are not concluded.", read.submissions],
    ["relay_video_downloads", "Video files being delivered to callers.", read.downloads],
    ["relay_quota_queued", "Operations that auth-quota has not answered.", read.quotaQueued],
    ["relay_leases", "Leases within which calls are admitted without a round trip.", read.leases],
  ];
  for (const [name, help, value] of watched) gauge(registry, { name, help, read: value });
}
