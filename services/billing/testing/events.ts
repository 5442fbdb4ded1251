import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  EndCause,
  RecordKind,
  type UsageRecorded,
  UsageRecordedSchema,
  UsageSource,
} from "#proto/usage/v1/usage_pb.ts";
import { holdSecret, readProofKeys, withProof } from "#shared/money/hold-proof.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { createRid } from "#shared/money/rid.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";

type Fields = Omit<UsageRecorded, "$typeName" | "$unknown" | "usage" | "unitPriceNanos" | "toldUsage">;

/** Fields to set otherwise than usual. `outputTokens` changes usage and cost together. */
export type EventFields = Partial<Fields> & {
  outputTokens?: bigint;
  usage?: Units;
  unitPriceNanos?: Units;
  toldUsage?: Units;
};

const [proofKey] = readProofKeys(holdProofKeys);

// 2 nano-USD per input token, 10 per output token.
const prices = { inputTokens: 2_000_000n, outputTokens: 10_000_000n };

/** An event as a relay would send it: 100 input and 20 output tokens for 400 nano-USD, unless said otherwise. */
export function makeEvent(given: EventFields = {}): UsageRecorded {
  const { outputTokens = 20n, ...fields } = given;
  const usage = { inputTokens: 100n, outputTokens };
  const nowMs = Date.now();
  return create(UsageRecordedSchema, {
    rid: createRid(),
    kind: RecordKind.FINAL,
    accountId: "acct_test",
    keyId: "key_test",
    endpoint: "/v1/chat/completions",
    modelRequested: "demo-chat",
    modelServed: "demo-chat-2026-01",
    upstream: "demo",
    usage,
    unitPriceNanos: prices,
    priceVersion: "demo-1",
    costNanos: costNanos(usage, prices),
    heldNanos: 5_000n,
    endCause: EndCause.COMPLETE,
    usageSource: UsageSource.PROVIDER,
    startedAt: timestampFromMs(nowMs - 900),
    firstByteAt: timestampFromMs(nowMs - 600),
    endedAt: timestampFromMs(nowMs),
    httpStatus: 200,
    streamed: true,
    relaySession: "0198c0de-0000-7000-8000-000000000001",
    ...fields,
  });
}

/** An event as it is published: with its proof. */
export function encodeEvent(event: UsageRecorded): Uint8Array {
  return withProof(holdSecret(proofKey, event), toBinary(UsageRecordedSchema, event));
}

/** A UsageBatch of encoded events. */
export function encodeBatch(events: readonly Uint8Array[]): Uint8Array {
  const writer = new BinaryWriter();
  for (const bytes of events) writer.tag(1, WireType.LengthDelimited).bytes(bytes);
  return writer.finish();
}
