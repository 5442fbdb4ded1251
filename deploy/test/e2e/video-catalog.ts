import type { Static } from "typebox";
import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import type { catalogSchema } from "../../../services/relay/catalog/schema.ts";
import { type CatalogSections, catalogText, modelOn, testCatalog, upstreamAt } from "./catalog.ts";
import { priceRow } from "./endpoints.ts";

type VideoLimits = NonNullable<Static<typeof catalogSchema>["models"][string]["video"]>;

// Odd numbers, so that a price rounded early and a sum rounded twice show in the amount.
const sora = { mediaMs: 1_000_000_061n };
const largeSora = { mediaMs: 3_000_000_067n };
const veo = { mediaMs: 2_000_000_071n };

const large = { size: "1792x1024", prices: largeSora };
const soraLimits = { seconds: [4, 8, 12], sizes: ["720x1280", "1280x720", large.size] };
const veoLimits = { seconds: [8, 6, 4], sizes: ["1280x720", "720x1280"] };

/** A model of videos on some upstreams, in order. */
function videosOn(kind: "sora" | "veo", upstreams: string[], limits: Partial<VideoLimits> = {}): object {
  const own = kind === "sora" ? soraLimits : veoLimits;
  const price = kind === "sora" ? priceRow(sora, [large]) : priceRow(veo);
  return modelOn(kind, {
    upstreams: upstreams.map((name) => ({ name, model: `${kind}-fake` })),
    video: { reference: true, deadline_seconds: 3_600, ...own, ...limits },
    price: price as never,
  });
}

function videosAt(baseUrl: string, dialect: VideoDialectName): object {
  return upstreamAt(baseUrl, { dialects: [dialect] });
}

/**
 * A catalog with models of videos beside its own. `sora-model` runs at a provider that speaks like OpenAI, `veo-model`
 * at one that speaks like Gemini, `brief-…` with a deadline of a second; `bare-sora-model` takes no picture;
 * `spare-sora-model` has a second place behind one where nobody listens, `nowhere-model` has none.
 */
export function withVideos(text: string, videosUrl: string): string {
  const { upstreams, models, ...rest } = JSON.parse(text) as CatalogSections;
  return catalogText({
    ...rest,
    upstreams: {
      ...upstreams,
      sora: videosAt(videosUrl, "openai-videos"),
      veo: videosAt(videosUrl, "gemini-videos"),
      // Nobody can listen on port 1 without being asked to.
      nowhere: videosAt("http://127.0.0.1:1", "openai-videos"),
    },
    models: {
      ...models,
      "sora-model": videosOn("sora", ["sora"]),
      "veo-model": videosOn("veo", ["veo"]),
      "brief-sora-model": videosOn("sora", ["sora"], { deadline_seconds: 1 }),
      "brief-veo-model": videosOn("veo", ["veo"], { deadline_seconds: 1 }),
      "bare-sora-model": videosOn("sora", ["sora"], { reference: false }),
      "spare-sora-model": videosOn("sora", ["nowhere", "sora"]),
      "nowhere-model": videosOn("sora", ["nowhere"]),
    },
  });
}

/** The test catalog with models of videos. */
export const videoCatalog = (fakeUrl: string, videosUrl: string): string => withVideos(testCatalog(fakeUrl), videosUrl);

/** A video, as far as its price depends on it. */
export type PricedVideo = { model: string; seconds: number; size?: string };

/** What a video costs, in nano-USD, rounded up once; worked out here and not by the services' own formula. */
export function videoCost({ model, seconds, size }: PricedVideo): bigint {
  const soraPrice = size === large.size ? largeSora : sora;
  const { mediaMs } = model.includes("veo") ? veo : soraPrice;
  const millionths = BigInt(seconds) * 1_000n * mediaMs;
  return millionths / 1_000_000n + (millionths % 1_000_000n > 0n ? 1n : 0n);
}
