import type { Static } from "typebox";
import { formatUsd } from "#shared/money/money.ts";
import type { Units } from "#shared/money/pricing.ts";
import { dialectNames } from "../../../services/relay/dialects/dialect.ts";
import type { catalogSchema } from "../../../services/relay/catalog/schema.ts";

type Source = Static<typeof catalogSchema>;
type Entry<T> = { [K in keyof T]?: T[K] };

/**
 * Prices of the models of `testCatalog` in nano-USD per 1,000,000 tokens. Each is another odd number, so that a token
 * in the wrong bucket, a price rounded early and a sum rounded twice all show in the amount.
 */
export const prices = {
  inputTokens: 3_000_000_007n,
  cacheReadTokens: 300_000_011n,
  cacheWrite5mTokens: 3_750_000_013n,
  cacheWrite1hTokens: 6_000_000_017n,
  outputTokens: 15_000_000_019n,
  reasoningTokens: 17_000_000_023n,
} as const satisfies Units;

export const priceVersion = "e2e-1";

const priceRow = {
  version: priceVersion,
  input_tokens: formatUsd(prices.inputTokens),
  cache_read_tokens: formatUsd(prices.cacheReadTokens),
  cache_write_5m_tokens: formatUsd(prices.cacheWrite5mTokens),
  cache_write_1h_tokens: formatUsd(prices.cacheWrite1hTokens),
  output_tokens: formatUsd(prices.outputTokens),
  reasoning_tokens: formatUsd(prices.reasoningTokens),
};

/**
 * An upstream that speaks every dialect and takes the credential "demo". It is never left alone after failures, because
 * tests that know nothing of each other share it, and it is stopped when a caller leaves, because it may stall for
 * ever.
 */
export function upstreamAt(baseUrl: string, settings: Entry<Source["upstreams"][string]> = {}): object {
  const credential = { env: "DEMO_API_KEY" };
  const common = {
    dialects: [...dialectNames],
    open_after_failures: 0,
    cool_down: false,
    on_caller_gone: "abort",
  };
  return { base_url: baseUrl, credential, ...common, ...settings };
}

type ModelSettings = Omit<Entry<Source["models"][string]>, "price" | "upstreams"> & {
  price?: Record<string, string>;
  upstreams?: { name: string; model?: string; priority?: number; weight?: number }[];
};

/** A model that runs on one upstream, at `prices`. */
export function modelOn(upstream: string, settings: ModelSettings = {}): object {
  return {
    owned_by: "e2e",
    created: 1_767_225_600,
    upstreams: [{ name: upstream }],
    context_tokens: 128_000,
    max_output_tokens: 16_384,
    reserve_output_tokens: 1_024,
    price: priceRow,
    ...settings,
  };
}

export type CatalogSections = { upstreams: Record<string, object>; models: Record<string, object> };

/** Text of a catalog file; JSON is YAML. */
export function catalogText(catalog: CatalogSections): string {
  return `${JSON.stringify(catalog, null, 2)}\n`;
}

/**
 * `test-model` runs on the fake upstream; `renamed-model` does too, under the name `upstream-name`; `hasty-model` runs
 * there over connections that lose patience within a second; `unreachable-model` runs on a port where nobody listens.
 * `more` is beside them.
 */
export function testCatalog(fakeUrl: string, more: Partial<CatalogSections> = {}): string {
  return catalogText({
    upstreams: {
      ...more.upstreams,
      fake: upstreamAt(fakeUrl),
      hasty: upstreamAt(fakeUrl, { first_byte_timeout_ms: 700, idle_timeout_ms: 700 }),
      // Nobody can listen on port 1 without being asked to.
      unreachable: upstreamAt("http://127.0.0.1:1"),
    },
    models: {
      ...more.models,
      "test-model": modelOn("fake"),
      "renamed-model": modelOn("fake", { upstreams: [{ name: "fake", model: "upstream-name" }] }),
      "hasty-model": modelOn("hasty"),
      "unreachable-model": modelOn("unreachable"),
    },
  });
}
