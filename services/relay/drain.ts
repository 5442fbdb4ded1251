import type { FastifyInstance } from "fastify";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Relay } from "./call.ts";

const flushMs = 10_000;
const sweepMs = 100;

/**
 * Leaves without losing anything: takes no new calls, lets live ones end for up to `drainMs`, cuts and settles what is
 * left, then gives auth-quota and JetStream time to answer for every charge. What they have not answered for stays in
 * the spool.
 */
export async function drain(app: FastifyInstance, relay: Relay, drainMs: number): Promise<void> {
  const { log, live, videos, settling } = relay;
  log.info({ liveCalls: live.size, downloads: videos.downloads.size }, "draining");
  const closed = app.close();
  let isOver = false;
  const cutAll = (): void => {
    for (const call of live) call.cut(EndCause.DRAINED);
    for (const download of videos.downloads) download.cut();
  };
  const deadline = setTimeout(() => {
    log.warn({ liveCalls: live.size, downloads: videos.downloads.size }, "drain time is over, cutting what is left");
    isOver = true;
    cutAll();
  }, drainMs);
  const sweeping = setInterval(() => {
    // One that was still sending its body at the deadline joins the live ones after it.
    if (isOver) cutAll();
    // One that was busy when the server closed stays open behind its answer, for as long as callers may keep it.
    app.server.closeIdleConnections();
  }, sweepMs);
  await closed;
  clearInterval(sweeping);
  // Nobody is connected who waits for these; the cut ends them as well.
  await Promise.all(videos.concluding);
  clearTimeout(deadline);
  const flushedBy = performance.now() + flushMs;
  await settling.publisher.drain(flushMs);
  while (settling.quota.queued() > 0 && performance.now() < flushedBy) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  log.info({ unanswered: settling.quota.queued(), unpublished: settling.publisher.waiting() }, "drained");
}
