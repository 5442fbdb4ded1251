import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import { catalogText, modelOn, upstreamAt } from "../e2e/catalog.ts";
import { priceRow } from "../e2e/endpoints.ts";

/** The first length and size is what a model makes when a caller names none. */
const lengths = [4, 8];
const sizes = ["1280x720", "720x1280"];
// Odd numbers of nano-USD per 1,000 s, so that a price rounded early or twice shows in the amount.
const nanosPerThousandSeconds: Record<string, bigint> = { "1280x720": 100_000_000_007n, "720x1280": 300_000_000_011n };
const dearSize = "720x1280";
const millisecondsPerSecond = 1_000n;

/** What a model of the load is asked for, and how. */
export type TaskModel = {
  model: string;
  /** By which API its provider is asked first. */
  api: "openai" | "gemini";
  /** Whether its tasks fail soon when their provider does not end them. */
  isBrief: boolean;
  /** Whether the service waits for its provider for less than a second. */
  isHasty: boolean;
};

type ModelPlan = TaskModel & { upstreams: string[] };

const common = { isBrief: false, isHasty: false };
const plans: readonly ModelPlan[] = [
  { ...common, model: "openai-clip", api: "openai", upstreams: ["openai"] },
  { ...common, model: "gemini-clip", api: "gemini", upstreams: ["gemini"] },
  { ...common, model: "spare-clip", api: "openai", upstreams: ["nowhere", "openai", "gemini"] },
  { ...common, model: "brief-openai-clip", api: "openai", upstreams: ["openai"], isBrief: true },
  { ...common, model: "brief-gemini-clip", api: "gemini", upstreams: ["gemini"], isBrief: true },
  { ...common, model: "hasty-clip", api: "openai", upstreams: ["hasty"], isHasty: true },
];

export const taskModels: readonly TaskModel[] = plans;
export const taskLengths: readonly number[] = lengths;
export const taskSizes: readonly string[] = sizes;

/** The only deadline that a task of the load may reach. */
const briefSeconds = 2;
/** More than a whole run may take. */
const longSeconds = 86_400;
export const hastyMs = 700;

/** Text of a catalog with the models of the load, all on the fake provider of videos. */
export function taskCatalog(videosUrl: string): string {
  const videosAt = (dialect: VideoDialectName, settings: object = {}): object =>
    upstreamAt(videosUrl, { dialects: [dialect], ...settings });
  return catalogText({
    upstreams: {
      openai: videosAt("openai-videos"),
      gemini: videosAt("gemini-videos"),
      hasty: videosAt("openai-videos", { first_byte_timeout_ms: hastyMs, idle_timeout_ms: hastyMs }),
      // Nobody can listen on port 1 without being asked to.
      nowhere: videosAt("openai-videos", { base_url: "http://127.0.0.1:1" }),
    },
    models: Object.fromEntries(plans.map((plan) => [plan.model, modelOf(plan)])),
  });
}

function modelOf({ model, upstreams, isBrief }: ModelPlan): object {
  const routes = upstreams.map((name, place) => ({ name, model, priority: place }));
  const video = { seconds: lengths, sizes, reference: true, deadline_seconds: isBrief ? briefSeconds : longSeconds };
  const priceOfSize = (size: string) => ({ mediaMs: nanosPerThousandSeconds[size] ?? 0n });
  const variants = [{ size: dearSize, prices: priceOfSize(dearSize) }];
  const price = priceRow(priceOfSize(sizes[0] ?? ""), variants);
  return modelOn("", { upstreams: routes, video, price: price as never });
}

/** What a video of the load costs, in nano-USD. On purpose not the services' own arithmetic: they are checked by it. */
export function taskPriceNanos({ size, seconds }: { size: string; seconds: number }): bigint {
  const perThousandSeconds = nanosPerThousandSeconds[size];
  if (perThousandSeconds === undefined) throw new Error(`${size} has no price`);
  const thousandths = BigInt(seconds) * perThousandSeconds;
  return thousandths / millisecondsPerSecond + (thousandths % millisecondsPerSecond > 0n ? 1n : 0n);
}
