import { create, toBinary, toJson } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  EndCause,
  ModelUsageSchema,
  RecordKind,
  UsageBatchSchema,
  type UsageRecorded,
  UsageRecordedSchema,
  UsageSource,
} from "#proto/usage/v1/usage_pb.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";

/** A message as a publisher sends it, and the file name that says what it is an example of. */
export type GoldenBatch = { name: string; events: UsageRecorded[] };

type Fields = Omit<UsageRecorded, "$typeName" | "$unknown" | "usage" | "unitPriceNanos">;
type GoldenFields = Partial<Fields> & { usage: Units; unitPriceNanos: Units };

const firstCallMs = Date.parse("2026-03-02T10:00:00.000Z");
const relaySession = "019cac9e-3400-7000-8000-00000000aaaa";

/** The rid of the call that began `second` seconds after the first one. */
function ridAt(second: number): string {
  const digits = (firstCallMs + second * 1_000).toString(16).padStart(12, "0");
  return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-${String(second).padStart(12, "0")}`;
}

/** The event of the call that began at `second`: a whole, streamed answer of 2.5 s, unless said otherwise. */
function eventAt(second: number, given: GoldenFields): UsageRecorded {
  const startedAtMs = firstCallMs + second * 1_000;
  return create(UsageRecordedSchema, {
    rid: ridAt(second),
    kind: RecordKind.FINAL,
    accountId: "acct_shop",
    keyId: "key_web",
    endpoint: "/v1/chat/completions",
    modelRequested: "demo-large",
    modelServed: "demo-large-2026-02-01",
    upstream: "demo",
    priceVersion: "demo-large@2026-02-15",
    costNanos: costNanos(given.usage, given.unitPriceNanos),
    heldNanos: 5_000_000n,
    endCause: EndCause.COMPLETE,
    usageSource: UsageSource.PROVIDER,
    startedAt: timestampFromMs(startedAtMs),
    firstByteAt: timestampFromMs(startedAtMs + 400),
    endedAt: timestampFromMs(startedAtMs + 2_500),
    httpStatus: 200,
    streamed: true,
    relaySession,
    sequence: BigInt(second),
    ...given,
  });
}

// 2.50 and 10.00 USD per million tokens.
const chatPrices = { inputTokens: 2_500_000_000n, outputTokens: 10_000_000_000n };

const plainCall = eventAt(0, {
  usage: { inputTokens: 1_203n, outputTokens: 411n },
  unitPriceNanos: chatPrices,
  streamed: false,
  upstreamCostNanos: 5_000_000n,
});

// Two prices that leave a rest: bucket by bucket it would be rounded up twice. The README works it out.
const cachedAndReasoning = eventAt(1, {
  endpoint: "/v1/messages",
  usage: {
    inputTokens: 17n,
    cacheReadTokens: 20_481n,
    cacheWrite5mTokens: 1_024n,
    outputTokens: 333n,
    reasoningTokens: 1_111n,
  },
  unitPriceNanos: {
    inputTokens: 3_000_000_001n,
    cacheReadTokens: 300_000_001n,
    cacheWrite5mTokens: 3_750_000_000n,
    outputTokens: 15_000_000_000n,
    reasoningTokens: 15_000_000_000n,
  },
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
});

const streamedCut = eventAt(2, {
  usage: { inputTokens: 900n, outputTokens: 57n },
  unitPriceNanos: chatPrices,
  endCause: EndCause.CLIENT_GONE,
  usageSource: UsageSource.PROVIDER_INPUT,
});

// The relay was silent and charged at its last checkpoint; it came back and told the whole use.
const provisional = eventAt(3, {
  kind: RecordKind.PROVISIONAL,
  accountId: "acct_lab",
  keyId: "key_lab",
  usage: { inputTokens: 500n, outputTokens: 40n },
  unitPriceNanos: chatPrices,
  endCause: EndCause.RELAY_LOST,
  usageSource: UsageSource.ESTIMATED,
  sequence: 0n,
});

const thenFinal = eventAt(3, {
  accountId: "acct_lab",
  keyId: "key_lab",
  usage: { inputTokens: 500n, outputTokens: 120n },
  unitPriceNanos: chatPrices,
});

const stillProvisional = { ...provisional, rid: ridAt(20) };

const { firstByteAt: _none, ...video } = eventAt(21, {
  endpoint: "/v1/videos",
  modelRequested: "demo-video",
  modelServed: "demo-video",
  priceVersion: "demo-video@2026-01-10",
  // 0.10 USD a second.
  usage: { mediaMs: 8_000n },
  unitPriceNanos: { mediaMs: 100_000_000_000n },
  usageSource: UsageSource.REQUEST,
  streamed: false,
  relaySession: "",
  sequence: 0n,
});

const image = eventAt(4, {
  endpoint: "/v1/images/generations",
  modelRequested: "demo-image",
  modelServed: "demo-image",
  priceVersion: "demo-image@2026-01-10",
  usage: { inputTokens: 31n, imageOutputTokens: 4_160n },
  unitPriceNanos: { inputTokens: 5_000_000_000n, imageOutputTokens: 40_000_000_000n },
  streamed: false,
});

// A search and a page, and an adviser of another model with prices of its own: 2,000 and 120 tokens for 0.019 USD.
const toolsAndOtherModels = eventAt(8, {
  endpoint: "/v1/messages",
  usage: { inputTokens: 3_150n, outputTokens: 260n, webSearches: 1n, webFetches: 2n, otherModelsNanos: 19_000_000n },
  unitPriceNanos: {
    ...chatPrices,
    webSearches: 10_000_000_000_000n,
    webFetches: 1_000_000_000n,
    otherModelsNanos: 1_000_000n,
  },
  priceVersion: "demo-large@2026-02-15+other-models",
  otherModels: [
    create(ModelUsageSchema, {
      model: "demo-adviser",
      usage: { inputTokens: 2_000n, outputTokens: 120n },
      unitPriceNanos: { inputTokens: 5_000_000_000n, outputTokens: 75_000_000_000n },
      priceVersion: "demo-adviser@2026-02-15",
      costNanos: 19_000_000n,
    }),
  ],
});

const estimated = eventAt(5, {
  accountId: "acct_lab",
  keyId: "key_lab",
  usage: { inputTokens: 210n, outputTokens: 64n },
  unitPriceNanos: chatPrices,
  endCause: EndCause.UPSTREAM_CUT,
  usageSource: UsageSource.ESTIMATED,
});

const nothingServed = eventAt(6, {
  modelServed: "",
  usage: {},
  unitPriceNanos: chatPrices,
  endCause: EndCause.UPSTREAM_ERROR,
  usageSource: UsageSource.NONE,
  httpStatus: 502,
});

/** Fields that usage.proto does not have, as its next version might: a bucket, its price, and a text. */
function newerSchema(): UsageRecorded {
  const event = eventAt(7, {
    usage: { inputTokens: 100n },
    unitPriceNanos: chatPrices,
    endCause: 99 as EndCause,
    usageSource: 42 as UsageSource,
  });
  const bucket = (value: bigint) => [
    { no: 99, wireType: WireType.Varint, data: new BinaryWriter().int64(value).finish() },
  ];
  const text = new BinaryWriter().string("something new").finish();
  const { usage, unitPriceNanos } = event;
  if (!usage || !unitPriceNanos) throw new Error("an event has usage and prices");
  usage.$unknown = bucket(7n);
  unitPriceNanos.$unknown = bucket(1_000_000_000n);
  event.costNanos += 7_000n;
  event.$unknown = [{ no: 1_000, wireType: WireType.LengthDelimited, data: text }];
  return event;
}

/** The golden messages, made in the same way each time. */
export const goldenBatches: readonly GoldenBatch[] = [
  { name: "plain-call", events: [plainCall] },
  { name: "cached-and-reasoning", events: [cachedAndReasoning] },
  { name: "streamed-cut", events: [streamedCut] },
  { name: "provisional-then-final", events: [provisional, thenFinal, stillProvisional] },
  { name: "video", events: [create(UsageRecordedSchema, video)] },
  { name: "image", events: [image] },
  { name: "estimated", events: [estimated] },
  { name: "nothing-served", events: [nothingServed] },
  { name: "tools-and-other-models", events: [toolsAndOtherModels] },
  { name: "newer-schema", events: [newerSchema()] },
];

export function encodeGolden({ events }: GoldenBatch): Uint8Array {
  return toBinary(UsageBatchSchema, create(UsageBatchSchema, { events }));
}

/** The message in protobuf's JSON mapping, which has no place for unknown fields. */
export function goldenJson({ events }: GoldenBatch): string {
  return `${JSON.stringify(toJson(UsageBatchSchema, create(UsageBatchSchema, { events })), null, 2)}\n`;
}
