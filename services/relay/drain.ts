import type { FastifyInstance } from "fastify";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { endServing } from "#shared/process/end-serving.ts";
import { endReading } from "./http/body.ts";
import type { Relay } from "./call.ts";

const flushMs = 10_000;
const sweepMs = 20;

/**
 * Leaves without losing anything: lets live calls end for up to `drainMs`, cuts and settles what is left, then gives
 * auth-quota and JetStream time to answer for every charge. What they have not answered for stays in the spool.
 */
export async function drain(app: FastifyInstance, relay: Relay, drainMs: number): Promise<void> {
  const { log, live, orphans, videos, settling } = relay;
  const { connections, sockets } = app;
  const counts = () => ({
    liveCalls: live.size,
    orphans: orphans.size,
    downloads: videos.downloads.size,
    connections: connections.count(),
    sockets: sockets.size,
  });
  log.info(counts(), "draining");
  let isOver = false;
  sockets.drain();
  const cut = (): void => {
    if (!isOver) log.warn(counts(), "drain time is over, cutting what is left");
    isOver = true;
    for (const call of live) call.cut(EndCause.DRAINED);
    for (const download of videos.downloads) download.cut();
    for (const request of connections.requests()) endReading(request);
  };
  const leaving = endServing({ connections, close: () => app.close(), drainMs, cut });
  // Submissions go on behind callers who have been answered; the cut ends them as well.
  const deadline = setTimeout(cut, drainMs);
  await leaving;
  await Promise.all(videos.concluding);
  // Calls whose callers have left have no connection that would be waited for.
  while (orphans.size > 0) {
    if (isOver) cut();
    await new Promise((resolve) => setTimeout(resolve, sweepMs));
  }
  clearTimeout(deadline);
  const flushedBy = performance.now() + flushMs;
  await settling.publisher.drain(flushMs);
  while (settling.quota.queued() > 0 && performance.now() < flushedBy) {
    await new Promise((resolve) => setTimeout(resolve, sweepMs));
  }
  log.info({ unanswered: settling.quota.queued(), unpublished: settling.publisher.waiting() }, "drained");
}
