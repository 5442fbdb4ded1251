import { Type, type Static } from "typebox";
import { quirks } from "../dialects/conversation.ts";
import { upstreamSchema } from "#shared/catalog/upstream-schema.ts";
import { videoDialectNames } from "#shared/catalog/video-dialects.ts";
import type { CatalogProblem } from "#shared/catalog/document.ts";
import { dialectNames, upstreamDialectNames } from "../dialects/dialect.ts";
import { stateKinds } from "../dialects/state-names.ts";
import { usageBuckets, type UsageBucket } from "#shared/money/pricing.ts";

const strict = { additionalProperties: false };

/** Bucket names as the catalog writes them: `cacheReadTokens` is `cache_read_tokens`. */
export function catalogNameOf(bucket: UsageBucket): string {
  return bucket.replaceAll(/(?<=[a-z])(?=[A-Z0-9])/g, "_").toLowerCase();
}

const usdPerMillion = Type.String({
  pattern: String.raw`^\d{1,9}(\.\d{1,9})?$`,
  description: "USD per 1,000,000 units, at most nine decimals.",
});

const bucketPrices = Object.fromEntries(
  usageBuckets.map((bucket) => [catalogNameOf(bucket), Type.Optional(usdPerMillion)]),
);

const variant = Type.Object(
  {
    size: Type.Optional(Type.String({ minLength: 1, maxLength: 50 })),
    quality: Type.Optional(Type.String({ minLength: 1, maxLength: 50 })),
    service_tier: Type.Optional(Type.String({ minLength: 1, maxLength: 50 })),
    search_context_size: Type.Optional(Type.String({ minLength: 1, maxLength: 50 })),
    above_input_tokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
    multiplier: Type.Optional(
      Type.String({
        pattern: String.raw`^\d{1,3}(\.\d{1,9})?$`,
        description: "What the prices that the variant does not name are multiplied by.",
      }),
    ),
    ...bucketPrices,
  },
  strict,
);

const variants = Type.Optional(
  Type.Array(variant, {
    maxItems: 50,
    description:
      "Other prices for calls of this size, quality or service tier, or of more input; the first that fits counts.",
  }),
);

const price = Type.Object(
  {
    version: Type.String({
      pattern: "^[^+]{1,100}$",
      description: "Name of this price row; change it with any price. Variants add + and what they are for.",
    }),
    ...bucketPrices,
    variants,
  },
  strict,
);

const cost = Type.Object({ ...bucketPrices, variants }, strict);

const tokens = (description: string) => Type.Integer({ minimum: 1, maximum: 100_000_000, description });

const video = Type.Object(
  {
    seconds: Type.Array(Type.Integer({ minimum: 1, maximum: 3_600 }), {
      minItems: 1,
      maxItems: 100,
      description: "Lengths that it makes; the first where a caller names none.",
    }),
    sizes: Type.Array(Type.String({ pattern: String.raw`^[1-9]\d{1,4}x[1-9]\d{1,4}$` }), {
      minItems: 1,
      maxItems: 100,
      description: "Sizes that it makes, as width and height; the first where a caller names none.",
    }),
    reference: Type.Boolean({ default: true, description: "Whether it can begin with a picture." }),
    deadline_seconds: Type.Integer({
      minimum: 1,
      maximum: 172_800,
      default: 3_600,
      description: "A task that has not ended by then is asked for once more; then it counts as failed.",
    }),
  },
  strict,
);

const model = Type.Object(
  {
    owned_by: Type.String({ minLength: 1, maxLength: 100 }),
    created: Type.Integer({
      minimum: 0,
      default: 0,
      description: "Unix seconds, shown in the model list; left out: the day that its price version begins with.",
    }),
    upstreams: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1 }),
          model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
          priority: Type.Integer({
            minimum: 0,
            maximum: 1_000,
            default: 0,
            description: "Lower ones are tried first.",
          }),
          weight: Type.Integer({
            minimum: 0,
            maximum: 1_000_000,
            default: 0,
            description: "Share of the calls among equal priorities; 0: tried behind those with a share, in order.",
          }),
          cost: Type.Optional(cost),
        },
        strict,
      ),
      { minItems: 1, maxItems: 20, description: "Tried in order, unless priority or weight say otherwise." },
    ),
    dialects: Type.Optional(
      Type.Array(Type.Enum([...dialectNames]), {
        minItems: 1,
        description: "Formats in which it may be called; left out: the conversation formats of its upstreams.",
      }),
    ),
    quirks: Type.Optional(
      Type.Array(Type.Enum([...quirks]), { description: "How it differs from what its upstreams' dialect says." }),
    ),
    structured_output: Type.Optional(
      Type.Enum(["provider", "none"], {
        description:
          "Of a model that speaks `anthropic-messages`: whether it takes the format of an answer from every caller " +
          "or from none; left out: from all but callers of chat, as the API says.",
      }),
    ),
    unpriced_tools: Type.Enum(["refuse", "pass"], {
      default: "refuse",
      description: "What becomes of tools that the provider runs and bills, and this row does not price.",
    }),
    shared_state: Type.Optional(
      Type.Array(Type.Enum([...stateKinds]), {
        description: "Kinds of what its providers keep whose ids every account may use, as they come.",
      }),
    ),
    context_tokens: Type.Optional(tokens("The most that it reads; needed where text is made.")),
    max_output_tokens: Type.Optional(tokens("The most that it writes; needed where text is made.")),
    reserve_output_tokens: Type.Integer({
      minimum: 1,
      maximum: 100_000_000,
      default: 4_096,
      description: "Output tokens that are held for a call which sets no cap.",
    }),
    video: Type.Optional(video),
    price,
  },
  strict,
);

/** The catalog file: what is offered, where it runs, what it costs. */
export const catalogSchema = Type.Object(
  {
    maintenance: Type.Boolean({ default: false, description: "Whether every call is refused with 503." }),
    upstreams: Type.Record(Type.String(), upstreamSchema(Type.Enum([...upstreamDialectNames, ...videoDialectNames]))),
    models: Type.Record(Type.String({ minLength: 1, maxLength: 200 }), model),
  },
  strict,
);

export type CatalogSource = Static<typeof catalogSchema>;

/** A catalog on its way from its text to what the relay works with. */
export type CatalogBuild = { source: CatalogSource; problems: CatalogProblem[] };
