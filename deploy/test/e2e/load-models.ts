import { formatUsd } from "#shared/money/money.ts";
import { catalogText, modelOn, prices, upstreamAt } from "./catalog.ts";

/** Nano-USD per 1,000,000 tokens, for every bucket that the load uses. */
export type Prices = { [bucket in keyof typeof prices]: bigint };

// 0.001 USD a word, so that streams soon have a checkpoint: the relay writes one at every further 0.01 USD.
const dearPrices: Prices = { ...prices, outputTokens: 1_000_000_000_019n, reasoningTokens: 1_000_000_000_023n };

/** The models that are called under load; the last by sessions. */
export const modelPrices: Record<string, Prices> = {
  "cheap-model": prices,
  "dear-model": dearPrices,
  "talking-model": prices,
};

/** The same times a number. */
const timesOf = (one: Prices, times: bigint): Prices => ({
  inputTokens: one.inputTokens * times,
  cacheReadTokens: one.cacheReadTokens * times,
  cacheWrite5mTokens: one.cacheWrite5mTokens * times,
  cacheWrite1hTokens: one.cacheWrite1hTokens * times,
  outputTokens: one.outputTokens * times,
  reasoningTokens: one.reasoningTokens * times,
});

/** A version of the prices: those of the load's models, times a number. */
export type PriceVersion = { version: string; times: bigint };

/** The prices of a version, by model. */
export const pricesAt = ({ times }: PriceVersion): Record<string, Prices> =>
  Object.fromEntries(Object.entries(modelPrices).map(([model, one]) => [model, timesOf(one, times)]));

/** Text of a catalog that offers them, all on the fake upstream, with sockets to it. */
export function loadCatalogAt(fakeUrl: string, at: PriceVersion): string {
  const models = Object.entries(pricesAt(at)).map(([model, one]) => {
    const price = {
      version: at.version,
      input_tokens: formatUsd(one.inputTokens),
      cache_read_tokens: formatUsd(one.cacheReadTokens),
      cache_write_5m_tokens: formatUsd(one.cacheWrite5mTokens),
      cache_write_1h_tokens: formatUsd(one.cacheWrite1hTokens),
      output_tokens: formatUsd(one.outputTokens),
      reasoning_tokens: formatUsd(one.reasoningTokens),
    };
    const sessions = model === "talking-model" ? { dialects: ["openai-realtime" as const] } : {};
    return [model, modelOn("fake", { price, ...sessions })];
  });
  return catalogText({
    upstreams: { fake: upstreamAt(fakeUrl, { on_caller_gone: "drain", responses_websocket: true }) },
    models: Object.fromEntries(models),
  });
}

export const loadCatalog = (fakeUrl: string): string => loadCatalogAt(fakeUrl, { version: "load-1", times: 1n });
