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

/** Text of a catalog that offers them, all on the fake upstream, with sockets to it. */
export function loadCatalog(fakeUrl: string): string {
  const price = {
    version: "dear-1",
    input_tokens: formatUsd(dearPrices.inputTokens),
    cache_read_tokens: formatUsd(dearPrices.cacheReadTokens),
    cache_write_5m_tokens: formatUsd(dearPrices.cacheWrite5mTokens),
    cache_write_1h_tokens: formatUsd(dearPrices.cacheWrite1hTokens),
    output_tokens: formatUsd(dearPrices.outputTokens),
    reasoning_tokens: formatUsd(dearPrices.reasoningTokens),
  };
  return catalogText({
    upstreams: { fake: upstreamAt(fakeUrl, { on_caller_gone: "drain", responses_websocket: true }) },
    models: {
      "cheap-model": modelOn("fake"),
      "dear-model": modelOn("fake", { price }),
      "talking-model": modelOn("fake", { dialects: ["openai-realtime"] }),
    },
  });
}
