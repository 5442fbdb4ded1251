import { RefusalReason, type Route } from "#proto/video/v1/video_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectOf, type VideoDialectName } from "#shared/catalog/video-dialects.ts";
import type { Ask, Asked } from "../providers/request.ts";
import type { LiveUpstreams } from "../catalog.ts";
import type { Lease } from "./lease.ts";
import type { Metrics } from "../metrics.ts";
import { providers } from "../providers/index.ts";
import type { Job, Provider } from "../providers/provider.ts";
import type { Refusal } from "../store/submissions.ts";

export type Asking = { ask: Ask; upstreams: LiveUpstreams; metrics: Metrics };

/** What the providers of a submission have come to; a refusal whose reason is UNKNOWN may have been taken. */
export type Answered =
  | { kind: "accepted"; route: Route; dialect: VideoDialectName; upstreamId: string }
  | { kind: "refused"; upstream: string; refusal: Refusal; mayAskNext: boolean };

type Wanted = { rid: string; job: Omit<Job, "model"> };

/**
 * Asks the routes in their order, each at most once, and the next only after a certain no: whatever may have been taken
 * ends it, and so does a lease of which half is over, after which others may count the submission as unknown.
 */
export async function askRoutes(asking: Asking, wanted: Wanted, routes: Route[], lease: Lease): Promise<Answered> {
  let answered: Answered | undefined;
  for (const route of routes) {
    if (answered && !(await lease.moveTo(route.upstream))) return answered;
    if (!lease.isFresh()) return answered ?? tooLate(route);
    answered = await askRoute(asking, wanted, route);
    if (answered.kind === "accepted" || !answered.mayAskNext) return answered;
  }
  if (!answered) throw new Error("a submission without routes");
  return answered;
}

const tooLate = ({ upstream }: Route): Answered => ({
  ...refused(upstream, RefusalReason.STOPPING, "half of the lease was over before it was sent"),
  mayAskNext: false,
});

const refused = (upstream: string, reason: RefusalReason, cause: string) => ({
  kind: "refused" as const,
  upstream,
  refusal: { reason, retryAfterSeconds: 0, cause },
  mayAskNext: true,
});

async function askRoute(asking: Asking, { rid, job }: Wanted, route: Route): Promise<Answered> {
  const upstream = asking.upstreams.current().get(route.upstream);
  const dialect = upstream && videoDialectOf(upstream);
  // The relay's catalog may be ahead of this process's.
  if (!dialect) return refused(route.upstream, RefusalReason.UNREACHABLE, "not an upstream for videos here");
  const { submit } = providers[dialect];
  const request = submit.write({ ...job, model: route.model }, upstream.credential);
  if ("reason" in request) return refused(route.upstream, RefusalReason.REJECTED, request.reason);
  const asked = await asking.ask(upstream, { ...request, headers: [...request.headers, "x-request-id", rid] });
  const answered = understand(submit, asked, { route, dialect, upstream });
  if (answered.kind === "refused" && answered.refusal.reason !== RefusalReason.REJECTED) {
    asking.metrics.providerErrors.inc({ upstream: upstream.name, verb: "submit" });
  }
  return answered;
}

type Place = { route: Route; dialect: VideoDialectName; upstream: Upstream };

function understand(submit: Provider["submit"], asked: Asked, { route, dialect, upstream }: Place): Answered {
  if (asked.kind === "unsent") return refused(upstream.name, RefusalReason.UNREACHABLE, asked.cause);
  if (asked.kind === "silent") return final(refused(upstream.name, RefusalReason.UNKNOWN, asked.cause));
  const submission = submit.read(asked.answer);
  if (submission.outcome === "accepted") {
    return { kind: "accepted", route, dialect, upstreamId: submission.upstreamId };
  }
  const { outcome: _outcome, ...refusal } = submission;
  const answered = { ...refused(upstream.name, refusal.reason, refusal.cause), refusal };
  return certainNos.has(refusal.reason) ? answered : final(answered);
}

const final = (answered: Answered): Answered => ({ ...answered, mayAskNext: false }) as Answered;

// After which another provider may be asked. One that refused the request itself would be followed by more that do.
const certainNos: ReadonlySet<RefusalReason> = new Set([
  RefusalReason.ACCOUNT,
  RefusalReason.RATE,
  RefusalReason.UNAVAILABLE,
]);
