import { Type, type Static, type TSchema, type TString } from "typebox";

const strict = { additionalProperties: false };

const milliseconds = (description: string, fallback: number, maximum = 3_600_000) =>
  Type.Integer({ minimum: 1, maximum, default: fallback, description });

const fromVariable = Type.Object({ env: Type.String({ minLength: 1 }) }, strict);
const fromFile = Type.Object({ file: Type.String({ minLength: 1 }) }, strict);

const secret = Type.Union([fromVariable, fromFile]);
const text = Type.Union([Type.String({ minLength: 1, maxLength: 4_096 }), fromVariable, fromFile]);

const path = (description: string) => Type.Optional(Type.String({ minLength: 1, description }));

const tls = Type.Object(
  {
    ca_file: path("Certificates in PEM that are trusted in the place of the system's."),
    cert_file: path("The relay's own certificate in PEM, for an upstream that asks for one."),
    key_file: path("Its key in PEM."),
    server_name: Type.Optional(
      Type.String({ minLength: 1, maxLength: 253, description: "Name to ask for and to find in the certificate." }),
    ),
  },
  strict,
);

/** An upstream as the catalog writes it, which speaks some of the dialects. */
export const upstreamSchema = <Dialect extends TSchema>(dialect: Dialect) =>
  Type.Object(
    {
      base_url: Type.String({
        pattern: "^https?://[^/?#]+(/[^?#]*)?$",
        description: "Without the /v1 that every path starts with.",
      }),
      dialects: Type.Array(dialect, { minItems: 1 }),
      credential: secret,
      headers: Type.Record(Type.String(), text, {
        default: {},
        maxProperties: 20,
        description: "Sent with every call, such as OpenAI-Organization and OpenAI-Project.",
      }),
      proxy: Type.Optional(text),
      tls: Type.Optional(tls),
      connect_timeout_ms: milliseconds("For a connection to be made.", 5_000),
      first_byte_timeout_ms: milliseconds("For the head of the answer.", 300_000),
      idle_timeout_ms: milliseconds("Between two pieces of an answer.", 60_000),
      total_timeout_ms: milliseconds("From sending to the end of the answer.", 3_600_000, 86_400_000),
      max_concurrent: Type.Integer({
        minimum: 1,
        maximum: 100_000,
        default: 1_280,
        description:
          "Calls under way from one relay process, four fifths of them for one account; one more goes to the next " +
          "upstream, or waits for 2 s.",
      }),
      responses_websocket: Type.Boolean({
        default: false,
        description:
          "Whether it serves openai-responses over a WebSocket too: each socket of a caller then has one of its own " +
          "there; anything else goes over HTTP.",
      }),
      on_caller_gone: Type.Enum(["drain", "abort"], {
        default: "drain",
        description:
          "When a caller leaves: drain reads the answer to its end and charges what the provider counts; abort stops " +
          "the upstream and charges the input and what came, for providers that stop billing then.",
      }),
      drain_timeout_ms: milliseconds("For the rest of an answer whose caller has left.", 600_000),
      drain_max_output_tokens: Type.Integer({
        minimum: 1,
        maximum: 100_000_000,
        default: 8_192,
        description: "Output tokens of a stream that are read after its caller has left.",
      }),
      open_after_failures: Type.Integer({
        minimum: 0,
        maximum: 1_000,
        default: 10,
        description: "Failures in a row after which the upstream is left alone for a while; 0: never.",
      }),
      cool_down: Type.Boolean({
        default: true,
        description: "Whether an upstream that limits the rate or refuses the credential is left alone for a while.",
      }),
    },
    strict,
  );

export type UpstreamSource = Static<ReturnType<typeof upstreamSchema<TString>>>;
