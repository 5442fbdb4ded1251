import type { Dashboard, Panel } from "../dashboards.ts";
import { grownBy, greatest, perSecond, quantile, sumOf } from "../promql.ts";

const live: Panel[] = [
  {
    title: "Streams under way",
    description: "Answers that are being streamed, by relay. What autoscaling goes by.",
    unit: "short",
    queries: [{ expr: sumOf("relay_live_streams", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Calls under way",
    description: "Calls that are being answered, streamed or not, by relay.",
    unit: "short",
    queries: [{ expr: sumOf("relay_live_calls", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Relays that are stopping",
    description: "1 while a relay takes no calls and lets those under way end.",
    unit: "short",
    queries: [{ expr: greatest("relay_draining", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Bytes to callers",
    description: "Of streams.",
    unit: "Bps",
    queries: [{ expr: perSecond("relay_stream_bytes_total"), legend: "all relays" }],
  },
];

const ends: Panel[] = [
  {
    title: "Ends by reason",
    description: "complete is the usual one; drained must stay 0 while relays are replaced.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_stream_ends_total", "reason"), legend: "{{reason}}" }],
  },
  {
    title: "Broken by upstreams",
    description: "Streams that an upstream failed, cut, or left without a byte for too long.",
    unit: "ops",
    queries: [
      {
        expr: perSecond("relay_stream_ends_total", "upstream, reason", 'reason=~"upstream_.*"'),
        legend: "{{upstream}} {{reason}}",
      },
    ],
  },
  {
    title: "Cut by a relay that stopped",
    description: "Within the time shown.",
    unit: "short",
    isNumber: true,
    queries: [{ expr: grownBy("relay_stream_ends_total", "", 'reason="drained"'), legend: "drained" }],
  },
  {
    title: "Cut for want of money",
    description: "Within the time shown: neither the account nor the key had more to hold.",
    unit: "short",
    isNumber: true,
    queries: [{ expr: grownBy("relay_stream_ends_total", "", 'reason="hold_exhausted"'), legend: "hold_exhausted" }],
  },
];

const sockets: Panel[] = [
  {
    title: "WebSockets open",
    description: "By relay; at MAX_SOCKETS (10,000 unless set) one more gets 503.",
    unit: "short",
    queries: [{ expr: sumOf("relay_sockets", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Conversations kept for WebSockets",
    description: "At MAX_SOCKET_BYTES (128 MiB unless set) the oldest must be sent in full again.",
    unit: "bytes",
    queries: [{ expr: sumOf("relay_socket_kept_bytes", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Turns on WebSockets",
    description: "call; warm_up: kept for a turn to come; refused: before they were calls.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_socket_turns_total", "kind"), legend: "{{kind}}" }],
  },
  {
    title: "WebSockets to upstreams open",
    description: "For turns of callers' sockets, where the upstream has responses_websocket.",
    unit: "short",
    queries: [{ expr: sumOf("relay_upstream_sockets", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Turns on WebSockets to upstreams",
    description:
      "continued: only what is new was sent; whole: all of it; http: the upstream closed the socket instead.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_upstream_socket_turns_total", "kind"), legend: "{{kind}}" }],
  },
  {
    title: "WebSockets closed",
    description: "By reason: caller is the usual one.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_socket_ends_total", "reason"), legend: "{{reason}}" }],
  },
];

const left: Panel[] = [
  {
    title: "Answers read on without their callers",
    description: "By relay; one reads on at most 256 at once.",
    unit: "short",
    queries: [{ expr: sumOf("relay_orphans", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Callers who left",
    description: "How reading on ended, or why an answer was not read on: abort, account_full, process_full.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_orphan_ends_total", "reason"), legend: "{{reason}}" }],
  },
];

const flow: Panel[] = [
  {
    title: "Waiting for slow callers",
    description: "Seconds per second that streams stood still because a caller did not read.",
    unit: "s",
    queries: [{ expr: perSecond("relay_backpressure_seconds_total", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Between two pieces, p50, p95, p99",
    description: "Sampled, over all upstreams.",
    unit: "s",
    queries: [0.5, 0.95, 0.99].map((share) => ({
      expr: quantile(share, "relay_inter_chunk_seconds"),
      legend: `p${share * 100}`,
    })),
  },
];

export const streams: Dashboard = {
  uid: "model-relay-streams",
  title: "Streams",
  description: "Answers under way, how they end, and whether a rollout cuts any.",
  rows: [
    { title: "Under way", panels: live },
    { title: "Ends", panels: ends },
    { title: "Callers who left", panels: left },
    { title: "WebSockets", panels: sockets },
    { title: "Flow", panels: flow },
  ],
};
