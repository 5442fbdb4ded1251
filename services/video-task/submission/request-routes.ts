import { RefusalReason, type Route } from "#proto/video/v1/video_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectOf, type VideoDialectName } from "#shared/catalog/video-dialects.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { RequestProvider, ProviderResult } from "../providers/request.ts";
import type { LiveUpstreams } from "../catalog.ts";
import type { Lease } from "./lease.ts";
import type { Metrics } from "../metrics.ts";
import { providers } from "../providers/index.ts";
import type { Job, Provider } from "../providers/provider.ts";
import type { Refusal } from "../store/submissions.ts";

export type ProviderDeps = { requestProvider: RequestProvider; upstreams: LiveUpstreams; metrics: Metrics };

/** The result of requesting the providers. A refusal with reason UNKNOWN may still have been accepted. */
export type SubmissionResult =
  | { kind: "accepted"; route: Route; dialect: VideoDialectName; upstreamId: string }
  | { kind: "refused"; upstream: string; refusal: Refusal; mayTryNext: boolean };

type SubmissionJob = { rid: string; job: Omit<Job, "model"> };

/**
 * Requests the routes in order, each at most once, and the next one only after a definite refusal. Stops when a
 * provider may have accepted, and when half of the lease is over, as others may soon count the outcome as unknown.
 */
export async function requestRoutes(
  deps: ProviderDeps,
  submission: SubmissionJob,
  routes: Route[],
  lease: Lease,
): Promise<SubmissionResult> {
  let result: SubmissionResult | undefined;
  for (const route of routes) {
    if (result && !(await lease.moveTo(route.upstream))) return result;
    if (!lease.isFresh()) return result ?? tooLate(route);
    result = await requestRoute(deps, submission, route);
    if (result.kind === "accepted" || !result.mayTryNext) return result;
  }
  if (!result) throw new Error("a submission without routes");
  return result;
}

const tooLate = ({ upstream }: Route): SubmissionResult => ({
  ...refused(upstream, RefusalReason.STOPPING, "half of the lease had passed before it was sent"),
  mayTryNext: false,
});

const refused = (upstream: string, reason: RefusalReason, cause: string) => ({
  kind: "refused" as const,
  upstream,
  refusal: { reason, retryAfterSeconds: 0, cause },
  mayTryNext: true,
});

async function requestRoute(deps: ProviderDeps, { rid, job }: SubmissionJob, route: Route): Promise<SubmissionResult> {
  const upstream = deps.upstreams.current().get(route.upstream);
  const dialect = upstream && videoDialectOf(upstream);
  // The relay's catalog may be newer than the one of this process.
  if (!dialect)
    return refused(route.upstream, RefusalReason.UNREACHABLE, "not a video upstream in the catalog of this process");
  const { submit } = providers[dialect];
  const request = submit.write({ ...job, model: route.model }, upstream.credential);
  if ("reason" in request) return refused(route.upstream, RefusalReason.REJECTED, request.reason);
  faultPoint("video-task: lease checked, nothing sent");
  const response = await deps.requestProvider(upstream, {
    ...request,
    headers: [...request.headers, "x-request-id", rid],
  });
  const result = readResult(submit, response, { route, dialect, upstream });
  if (result.kind === "refused" && result.refusal.reason !== RefusalReason.REJECTED) {
    deps.metrics.providerErrors.inc({ upstream: upstream.name, verb: "submit" });
  }
  return result;
}

type RouteTarget = { route: Route; dialect: VideoDialectName; upstream: Upstream };

function readResult(
  submit: Provider["submit"],
  response: ProviderResult,
  { route, dialect, upstream }: RouteTarget,
): SubmissionResult {
  if (response.kind === "unsent") return refused(upstream.name, RefusalReason.UNREACHABLE, response.cause);
  if (response.kind === "silent") return final(refused(upstream.name, RefusalReason.UNKNOWN, response.cause));
  const submission = submit.read(response.answer);
  if (submission.outcome === "accepted") {
    return { kind: "accepted", route, dialect, upstreamId: submission.upstreamId };
  }
  const { outcome: _outcome, ...refusal } = submission;
  const result = { ...refused(upstream.name, refusal.reason, refusal.cause), refusal };
  return definiteRefusals.has(refusal.reason) ? result : final(result);
}

const final = (result: SubmissionResult): SubmissionResult => ({ ...result, mayTryNext: false }) as SubmissionResult;

// Refusals after which another provider may be tried. When one rejects the request itself, so would the others.
const definiteRefusals: ReadonlySet<RefusalReason> = new Set([
  RefusalReason.ACCOUNT,
  RefusalReason.RATE,
  RefusalReason.UNAVAILABLE,
]);
