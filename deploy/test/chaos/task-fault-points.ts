import type { SourcePatch } from "#shared/testing/patch-source.ts";
import type { FaultPoint } from "./fault-points.ts";

/** Every point at which the death of one process leaves a video task with half a story. */
export const taskFaultPoints: readonly FaultPoint[] = [
  {
    name: "video-task: intent written, nothing sent",
    service: "video-task",
    file: "services/video-task/submission/submit.ts",
    at: "return toOutcome(await send(deps, checked, { request, sinceMs }));",
    side: "before",
  },
  {
    name: "video-task: lease checked, nothing sent",
    service: "video-task",
    file: "services/video-task/submission/request-routes.ts",
    at: "const response = await deps.requestProvider(",
    side: "before",
  },
  {
    name: "video-task: provider has taken it, nothing written",
    service: "video-task",
    file: "services/video-task/submission/record-outcome.ts",
    at: "const acceptance = acceptanceOf(deps, charge, result);",
    side: "before",
  },
  {
    name: "video-task: acceptance written, relay not answered",
    service: "video-task",
    file: "services/video-task/submission/record-outcome.ts",
    at: "const row = await acceptSubmission(pool, rid, acceptance);",
    side: "behind",
  },
  {
    name: "video-task: poll answered, nothing written",
    service: "video-task",
    file: "services/video-task/polling/poll.ts",
    at: "const transition = decide(due, result, state.rules);",
    side: "before",
  },
  {
    name: "video-task: transition written, poll not over",
    service: "video-task",
    file: "services/video-task/polling/poll.ts",
    at: "const line = { rid, account, upstream, from };",
    side: "before",
  },
  {
    name: "video-task: failure written with its refund, nothing tried",
    service: "video-task",
    file: "services/video-task/polling/poll.ts",
    at: 'metrics.ended.inc({ state: "failed", code: labelOf(transition.code) });',
    side: "before",
  },
  {
    name: "video-task: charge published, not noted",
    service: "video-task",
    file: "services/video-task/charges/charge-outbox.ts",
    at: "await stream.publish(usageSubject, encodeUsageBatch([charge]), { msgID, headers, timeout: ackTimeoutMs });",
    side: "behind",
  },
  {
    name: "video-task: charge found in the ledger, not noted",
    service: "video-task",
    file: "services/video-task/charges/charge-outbox.ts",
    at: "if (await markBooked(deps.pool, event)) deps.log.info(",
    side: "before",
  },
  {
    name: "video-task: refund booked, not noted",
    service: "video-task",
    file: "services/video-task/charges/charge-outbox.ts",
    at: "const { line } = await billing.refund({ accountId, rid, amountNanos, refundId, reason });",
    side: "behind",
  },
  {
    name: "relay: task accepted, its charge not in the spool",
    service: "relay",
    file: "services/relay/videos/request.ts",
    at: "const { task, charge } = outcome.value;",
    side: "before",
  },
  {
    name: "relay: charge of a task in the spool, nobody told",
    service: "relay",
    file: "services/relay/charge/settle.ts",
    at: "settling.spool.append(record.rid, given);",
    side: "behind",
  },
];

const pauseNames = [
  "intent",
  "lease",
  "provider has taken it",
  "poll answered",
  "charge published",
  "refund booked",
  "relay: task accepted",
];

/** Where a process that stands still for longer than its leases finds that others have gone on without it. */
export const pausePoints = taskFaultPoints.filter(({ name }) => pauseNames.some((part) => name.includes(part)));

/** Repeats work that died with its process after seconds instead of half a minute, and does paused work twice. */
export const shortLeases: readonly SourcePatch[] = ["polling/poll", "charges/charge-outbox"].map((name) => ({
  file: `services/video-task/${name}.ts`,
  find: "const defaultLeaseMs = 30_000;",
  replace: "const defaultLeaseMs = 2_000;",
}));
