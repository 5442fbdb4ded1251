import { Type } from "typebox";

const strict = { additionalProperties: false };

const milliseconds = (description: string, fallback: number) =>
  Type.Integer({ minimum: 1, maximum: 3_600_000, default: fallback, description });

/** An upstream as the catalog writes it. */
export const upstreamSchema = Type.Object(
  {
    base_url: Type.String({
      pattern: "^https?://[^/?#]+(/[^?#]*)?$",
      description: "Without the /v1 that every path starts with.",
    }),
    dialects: Type.Array(Type.Union([Type.Literal("openai-chat"), Type.Literal("anthropic-messages")]), {
      minItems: 1,
    }),
    credential: Type.Union([
      Type.Object({ env: Type.String({ minLength: 1 }) }, strict),
      Type.Object({ file: Type.String({ minLength: 1 }) }, strict),
    ]),
    connect_timeout_ms: milliseconds("For a connection to be made.", 5_000),
    first_byte_timeout_ms: milliseconds("For the head of the answer.", 300_000),
    idle_timeout_ms: milliseconds("Between two pieces of an answer.", 60_000),
    max_connections: Type.Integer({ minimum: 1, maximum: 100_000, default: 1_024 }),
  },
  strict,
);
