import type { ActiveSet } from "#shared/process/active-set.ts";
import type { LiveCatalog } from "../catalog/catalog.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import type { BodyBudget } from "../http/body-budget.ts";
import type { LiveCall } from "../live-call.ts";
import type { Metrics } from "../metrics.ts";
import { createPools, type Pools } from "#shared/catalog/pools.ts";
import { publicRules, type FetchRules } from "#shared/net/guarded-agent.ts";
import type { VideoTasks } from "./tasks.ts";

export type VideoBounds = {
  /** Submissions under way or not concluded, in this process; one more is refused. */
  maxSubmissions: number;
  /** Files on their way to callers, in this process; one more is refused. */
  maxDownloads: number;
  /** Of them, those of one account. */
  maxDownloadsOfAccount: number;
  /** How long a file may stand still: nothing comes, or the caller reads nothing. */
  idleMs: number;
  /** Waits between the tries of a submission whose answer was lost. */
  submitAgainMs: readonly number[];
  /** First wait between the tries to conclude a submission; each is twice the one before, up to half a minute. */
  concludeAgainMs: number;
  maxConcludeTries: number;
};

// 40 tries are some twenty minutes.
export const defaultVideoBounds: VideoBounds = {
  maxSubmissions: 256,
  maxDownloads: 256,
  maxDownloadsOfAccount: 32,
  idleMs: 60_000,
  submitAgainMs: [200, 1_000, 3_000],
  concludeAgainMs: 500,
  maxConcludeTries: 40,
};

/** A file on its way to a caller. */
export type Download = { upstreamId: string; accountId: string; cut: () => void };

/** What the endpoints of videos share in a process. */
export type Videos = {
  /** Undefined: this relay offers no videos. */
  tasks: VideoTasks | undefined;
  bounds: VideoBounds;
  /** Where addresses that callers and providers name may lead. */
  fetchRules: FetchRules;
  /** Connections of downloads, apart from those of calls: files take minutes, and no call may wait for that. */
  filePools: Pools;
  downloads: Set<Download>;
  /** How many submissions have not ended. */
  submissions: number;
  /** Submissions of which the service has yet to say what became. */
  concluding: Set<Promise<void>>;
};

/** What the paths of videos need of their process. */
export type VideoRelay = {
  catalog: LiveCatalog;
  bodyBudget: BodyBudget;
  settling: SettlementDeps;
  metrics: Metrics;
  live: ActiveSet<LiveCall>;
  videos: Videos;
  isDraining: boolean;
};

/** The part of a process that serves videos; `given` replaces what tests have of their own. */
export function createVideos(tasks: VideoTasks | undefined, given: Partial<Videos> = {}): Videos & AsyncDisposable {
  const filePools = createPools();
  return {
    tasks,
    bounds: defaultVideoBounds,
    fetchRules: publicRules,
    filePools,
    downloads: new Set(),
    submissions: 0,
    concluding: new Set(),
    ...given,
    [Symbol.asyncDispose]: () => filePools[Symbol.asyncDispose](),
  };
}
