import { Type, type Static } from "typebox";
import { upstreamSchema } from "./catalog-upstream-schema.ts";
import { usageBuckets, type UsageBucket } from "#shared/pricing.ts";

const strict = { additionalProperties: false };

/** Bucket names as the catalog writes them: `cacheReadTokens` is `cache_read_tokens`. */
export function catalogNameOf(bucket: UsageBucket): string {
  return bucket.replaceAll(/(?<=[a-z])(?=[A-Z0-9])/g, "_").toLowerCase();
}

const usdPerMillion = Type.String({
  pattern: String.raw`^\d{1,9}(\.\d{1,9})?$`,
  description: "USD per 1,000,000 units, at most nine decimals.",
});

const price = Type.Object(
  {
    version: Type.String({
      minLength: 1,
      maxLength: 100,
      description: "Name of this price row; change it with any price.",
    }),
    ...Object.fromEntries(usageBuckets.map((bucket) => [catalogNameOf(bucket), Type.Optional(usdPerMillion)])),
  },
  strict,
);

const model = Type.Object(
  {
    owned_by: Type.String({ minLength: 1, maxLength: 100 }),
    created: Type.Integer({ minimum: 0, default: 0, description: "Unix seconds, shown in the model list." }),
    upstreams: Type.Array(
      Type.Object(
        { name: Type.String({ minLength: 1 }), model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) },
        strict,
      ),
      { minItems: 1, maxItems: 20, description: "In the order in which they are tried." },
    ),
    context_tokens: Type.Integer({ minimum: 1, maximum: 100_000_000 }),
    max_output_tokens: Type.Integer({ minimum: 1, maximum: 100_000_000 }),
    reserve_output_tokens: Type.Integer({
      minimum: 1,
      maximum: 100_000_000,
      default: 4_096,
      description: "Output tokens that are held for a call which sets no cap.",
    }),
    price,
  },
  strict,
);

/** The catalog file: what is offered, where it runs, what it costs. */
export const catalogSchema = Type.Object(
  {
    upstreams: Type.Record(Type.String(), upstreamSchema),
    models: Type.Record(Type.String({ minLength: 1, maxLength: 200 }), model),
  },
  strict,
);

export type CatalogSource = Static<typeof catalogSchema>;

/** What is wrong at a place of the catalog. */
export type CatalogProblem = { path: (string | number)[]; reason: string };

/** A catalog on its way from its text to what the relay works with. */
export type CatalogBuild = { source: CatalogSource; environment: NodeJS.ProcessEnv; problems: CatalogProblem[] };
