import { hash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  CircuitState,
  type CheckCatalogResponseSchema,
  type GetStateResponseSchema,
  type ModelSchema,
  type RelayService,
  type TestUpstreamResponseSchema,
} from "#proto/relay/v1/relay_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";

type State = MessageInitShape<typeof GetStateResponseSchema>;

const startedAt = timestampFromDate(new Date("2026-11-20T08:00:00Z"));

const chatModel = {
  name: "chat-large",
  prices: [
    {
      version: "chat-large@2026-11-01",
      unitPriceNanos: { inputTokens: 2_500_000_000n, outputTokens: 10_000_000_000n },
    },
    {
      version: "chat-large@2026-11-01/2",
      condition: "more than 200,000 input tokens",
      unitPriceNanos: { inputTokens: 5_000_000_000n, outputTokens: 15_000_000_000n },
    },
  ],
  routes: [
    {
      upstream: "first-upstream",
      model: "hidden-model",
      priority: 1,
      weight: 1,
      unitCostNanos: { inputTokens: 1_111_000_000n, outputTokens: 4_444_000_000n },
    },
    { upstream: "second-upstream", model: "hidden-model-2", priority: 2, weight: 1 },
  ],
  endpoints: ["/v1/chat/completions", "/v1/responses", "/v1/messages"],
};

const embeddingModel = {
  name: "embed-small",
  prices: [{ version: "embed-small@2026-11-01", unitPriceNanos: { inputTokens: 20_000_000n } }],
  routes: [{ upstream: "first-upstream", model: "hidden-embed", priority: 1, weight: 1 }],
  endpoints: ["/v1/embeddings"],
};

export const defaultModels = [chatModel, embeddingModel];

const upstream = (name: string, circuit: CircuitState) => ({
  name,
  baseUrl: `https://${name}.example/v1`,
  dialects: ["chat"],
  circuit,
  liveCalls: 1,
  maxCalls: 100,
});

/** A relay that is ready, with two upstreams and these models, or two. */
export const readyState = (models: MessageInitShape<typeof ModelSchema>[] = defaultModels): State => ({
  relaySession: "relay-session-1",
  startedAt,
  liveCalls: 3n,
  catalog: {
    contentHash: "c0ffee".repeat(10),
    loadedAt: startedAt,
    models,
    upstreams: [
      upstream("first-upstream", CircuitState.CLOSED),
      {
        ...upstream("second-upstream", CircuitState.OPEN),
        closedUntil: timestampFromDate(new Date("2026-11-20T09:00:00Z")),
      },
    ],
  },
});

const defaultFile = `# Kept by operations.
upstreams:
  first-upstream: # the one with the contract
    base_url: https://first-upstream.example
    dialects: [openai-chat]
    credential: { env: FIRST_KEY }
models:
  chat-large:
    owned_by: somebody
    upstreams: [{ name: first-upstream, model: hidden-model }]
    context_tokens: 1000
    max_output_tokens: 100
    price: { version: "1", input_tokens: "2.5", output_tokens: "10" } # agreed in May
# The end.
`;

/** From memory: the state of relays, which tests set, and how often it was asked for. */
export function createRelayNeighbour() {
  const neighbour = {
    state: readyState(),
    requests: 0,
    file: defaultFile,
    verdict: {} as MessageInitShape<typeof CheckCatalogResponseSchema>,
    /** The texts that were checked, and what was tested. */
    checked: [] as string[],
    tested: [] as string[],
    result: { status: 200, durationMs: 412n, dialect: "openai-chat" } as MessageInitShape<
      typeof TestUpstreamResponseSchema
    >,
  };
  const handlers = {
    getState: async () => {
      neighbour.requests += 1;
      return neighbour.state;
    },
    getCatalogFile: async () => ({ contentHash: hash("sha256", neighbour.file), text: neighbour.file }),
    checkCatalog: async ({ text }) => {
      neighbour.checked.push(text);
      return neighbour.verdict;
    },
    testUpstream: async ({ upstream, model }) => {
      neighbour.tested.push(`${model} at ${upstream}`);
      return neighbour.result;
    },
  } satisfies Partial<UnaryHandlers<typeof RelayService>>;
  return Object.assign(neighbour, { handlers });
}
