import { modelOn, wires, type WireName } from "./wire.ts";

// USD per 1,000,000 tokens, as the catalog wants them; the same in nano-USD for the audit.
const price = { inputTokens: "1.00", outputTokens: "2.00" };
export const priceNanos = { inputTokens: 1_000_000_000n, outputTokens: 2_000_000_000n };

const credential = "credential: { env: DEMO_API_KEY }";
// Limits of one process are raised, not switched off.
const limits = "max_concurrent: 100000\n    idle_timeout_ms: 300000";

/** A catalog with a model on each dialect of the upstream, and more models beside them. */
export function benchCatalog(upstreamOrigin: string, moreModels = 0): string {
  const names = Object.keys(wires) as WireName[];
  const upstreams = names.map(
    (name) =>
      `  ${name}:\n    base_url: ${upstreamOrigin}\n    dialects: [${name}]\n    ${credential}\n    ${limits}\n`,
  );
  const more = Array.from({ length: moreModels }, (_, index) => modelEntry(moreModelName(index), "openai-chat"));
  const models = [...names.map((name) => modelEntry(modelOn(name), name)), ...more];
  return `upstreams:\n${upstreams.join("")}models:\n${models.join("")}`;
}

/** Name of one of the models beside. */
export function moreModelName(index: number): string {
  return `bench-more-${index}`;
}

function modelEntry(name: string, upstream: WireName): string {
  const { inputTokens, outputTokens } = price;
  return `  ${name}:
    owned_by: bench
    upstreams: [{ name: ${upstream} }]
    context_tokens: 2000000
    max_output_tokens: 4096
    price: { version: bench-1, input_tokens: "${inputTokens}", output_tokens: "${outputTokens}" }
`;
}
