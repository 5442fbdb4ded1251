import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { SessionRequestSchema, SessionResponseSchema, type OperationSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { BrokenMessage } from "#shared/protobuf/wire-reader.ts";
import { emptyOperation, decodeSessionRequest, encodeSessionResponse, type Result } from "./session-wire.ts";

type OperationInit = NonNullable<MessageInitShape<typeof OperationSchema>["operation"]>;

const bytes = (text: string): Buffer => Buffer.from(text);
const large = 9_007_199_254_740_991n;

const operations: [operation: OperationInit, decoded: Partial<ReturnType<typeof emptyOperation>>][] = [
  [
    { case: "authorize", value: { keyHash: bytes("hash"), ip: "::1" } },
    { keyHash: bytes("hash"), ip: "::1" },
  ],
  [
    { case: "authorize", value: { keyHash: bytes("h"), mayBeUsedUp: true, address: "::2" } },
    { keyHash: bytes("h"), mayBeUsedUp: true, address: "::2" },
  ],
  [
    {
      case: "reserve",
      value: { rid: "r", keyHash: bytes("h"), ip: "1.2.3.4", model: "mü", estimateNanos: large, traceparent: "00-x" },
    },
    { rid: "r", keyHash: bytes("h"), ip: "1.2.3.4", model: "mü", estimateNanos: Number(large), traceparent: "00-x" },
  ],
  [
    { case: "reserve", value: { rid: "r", address: "::3" } },
    { rid: "r", address: "::3" },
  ],
  [
    { case: "extend", value: { rid: "r", totalNanos: 5n, leastNanos: 300n } },
    { rid: "r", totalNanos: 5, leastNanos: 300 },
  ],
  [
    { case: "checkpoint", value: { rid: "r", costNanos: 6n, record: Buffer.alloc(70_000, 9) } },
    { rid: "r", costNanos: 6, record: Buffer.alloc(70_000, 9) },
  ],
  [
    { case: "settle", value: { rid: "r", accountId: "a", keyId: "k", costNanos: 0n, record: bytes("x") } },
    { rid: "r", accountId: "a", keyId: "k", record: bytes("x") },
  ],
  [{ case: "release", value: { rid: "r" } }, { rid: "r" }],
  [{ case: "lookup", value: { rid: "r" } }, { rid: "r" }],
  [{ case: "endSession", value: { relaySession: "relay_2" } }, { relaySession: "relay_2" }],
  [
    {
      case: "restore",
      value: {
        rid: "r",
        accountId: "a",
        keyId: "k",
        heldNanos: 1n,
        costNanos: 2n,
        record: bytes("x"),
        holdSecret: bytes("s"),
      },
    },
    {
      rid: "r",
      accountId: "a",
      keyId: "k",
      heldNanos: 1,
      costNanos: 2,
      record: bytes("x"),
      holdSecret: bytes("s"),
    },
  ],
  [{ case: "lookupMany", value: { rids: Buffer.alloc(32, 1) } }, { rids: Buffer.alloc(32, 1) }],
];

const encode = (sent: OperationInit[]): Buffer => {
  const operationsSent = sent.map((operation) => ({ operation }));
  const message = create(SessionRequestSchema, {
    relaySession: "relay_1",
    batch: 4_294_967_297n,
    operations: operationsSent,
  });
  return Buffer.from(toBinary(SessionRequestSchema, message));
};

test("every operation is read as the contract's own codec writes it", () => {
  const { relaySession, batch, operations: read } = decodeSessionRequest(encode(operations.map(([sent]) => sent)));
  assert.deepEqual([relaySession, batch], ["relay_1", 4_294_967_297]);
  assert.deepEqual(
    read,
    operations.map(([{ case: name }, decoded]) => ({ ...emptyOperation(name ?? "none"), ...decoded })),
  );
});

test("amounts that are not exact are not taken for safe integers, and negative ones stay negative", () => {
  const [first, second] = decodeSessionRequest(
    encode([{ case: "extend", value: { rid: "r", totalNanos: large + 1n, leastNanos: -1n } }]),
  ).operations.map(({ totalNanos, leastNanos }) => [Number.isSafeInteger(totalNanos), leastNanos]) as [
    unknown,
    unknown,
  ];
  assert.deepEqual([first, second], [[false, -1], undefined]);
});

test("what a newer relay sends beside is passed over, and an operation that is not known is none", () => {
  const writer = new BinaryWriter();
  writer.tag(99, 2).string("new").tag(1, 2).string("relay_1").tag(1, 0).int64(7n);
  writer.tag(3, 2).fork().tag(77, 2).fork().tag(1, 2).string("rid").join().join();
  writer.tag(3, 2).fork().tag(7, 2).fork().tag(9, 0).int64(5n).tag(1, 2).string("rid").join().join();
  const { relaySession, operations: read } = decodeSessionRequest(Buffer.from(writer.finish()));
  assert.deepEqual(
    [relaySession, read],
    ["relay_1", [emptyOperation("none"), { ...emptyOperation("lookup"), rid: "rid" }]],
  );
});

test("a message that is cut off is refused", () => {
  const whole = encode(operations.map(([sent]) => sent).filter(({ case: name }) => name !== "checkpoint"));
  const ends = new Set([0, ...ofWhole(whole)]);
  for (let length = 0; length < whole.length; length += 1) {
    const read = (): unknown => decodeSessionRequest(whole.subarray(0, length));
    if (ends.has(length)) read();
    else assert.throws(read, BrokenMessage, `${length} of ${whole.length} bytes`);
  }
});

/** Where a field of the outermost message ends. */
function ofWhole(whole: Buffer): number[] {
  const ends: number[] = [];
  for (let length = 1; length < whole.length; length += 1) {
    try {
      fromBinary(SessionRequestSchema, whole.subarray(0, length));
      ends.push(length);
    } catch {
      // Cut off within a field.
    }
  }
  return ends;
}

const results: Result[] = [
  { verdict: 1 },
  { verdict: 1, accountId: "acct", keyId: "key", heldNanos: Number(large) },
  { verdict: 7, accountId: "", keyId: "", retryAfterSeconds: 59 },
  { verdict: 1, accountId: "a", keyId: "k", models: ["gpt", "", "clé"] },
  { verdict: 1, state: 5 },
  { verdict: 9, checkpointNanos: 123_456_789_012 },
  { verdict: 1, heldNanos: 5, holdSecret: Buffer.from("0123456789abcdef") },
  { verdict: 1, states: Buffer.from([0, 1, 2, 3, 4, 5]) },
];

for (const isMaintenance of [undefined, false, true]) {
  test(`an answer has the bytes of the contract's own codec; maintenance: ${isMaintenance}`, () => {
    const isStopping = isMaintenance === true;
    const answer = {
      batch: 4_294_967_297,
      results,
      generation: "1732212121212000",
      isMaintenance,
      isStopping,
      timeMs: 1_732_212_121_212,
      recalledLeases: ["lease-1", "lease-2"],
    };
    const expected = create(SessionResponseSchema, {
      generation: answer.generation,
      batch: BigInt(answer.batch),
      results: results.map(({ heldNanos = 0, checkpointNanos = 0, ...result }) => ({
        ...result,
        heldNanos: BigInt(heldNanos),
        checkpointNanos: BigInt(checkpointNanos),
      })),
      hasLookupMany: true,
      timeMs: BigInt(answer.timeMs),
      isStopping,
      recalledLeases: answer.recalledLeases,
      ...(isMaintenance === undefined ? {} : { isMaintenance }),
    });
    assert.deepEqual(encodeSessionResponse(answer), Buffer.from(toBinary(SessionResponseSchema, expected)));
  });
}
