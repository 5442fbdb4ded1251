import type { SourcePatch } from "#shared/testing/patch-source.ts";
import type { FaultPoint } from "./fault-points.ts";

/** Every point at which the death of one process leaves a video task with half a story. */
export const taskFaultPoints: readonly FaultPoint[] = [
  {
    name: "video-task: intent written, nothing sent",
    service: "video-task",
  },
  {
    name: "video-task: lease checked, nothing sent",
    service: "video-task",
  },
  {
    name: "video-task: provider has taken it, nothing written",
    service: "video-task",
  },
  {
    name: "video-task: acceptance written, relay not answered",
    service: "video-task",
  },
  {
    name: "video-task: poll answered, nothing written",
    service: "video-task",
  },
  {
    name: "video-task: transition written, poll not over",
    service: "video-task",
  },
  {
    name: "video-task: failure written with its refund, nothing tried",
    service: "video-task",
  },
  {
    name: "video-task: charge published, not noted",
    service: "video-task",
  },
  {
    name: "video-task: charge found in the ledger, not noted",
    service: "video-task",
  },
  {
    name: "video-task: refund booked, not noted",
    service: "video-task",
  },
  {
    name: "relay: task accepted, its charge not in the spool",
    service: "relay",
  },
  {
    name: "relay: charge of a task in the spool, nobody told",
    service: "relay",
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
