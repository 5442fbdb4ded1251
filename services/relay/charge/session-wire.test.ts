import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import {
  CallState,
  OperationSchema,
  ResultSchema,
  SessionRequestSchema,
  SessionResponseSchema,
  Verdict,
} from "#proto/authquota/v1/authquota_pb.ts";
import { decodeSessionResponse, encodeSessionRequest, type Operation } from "./session-wire.ts";

const money = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }));
const text = fc.oneof(fc.constant(""), fc.uuid(), fc.string({ unit: "binary", maxLength: 100 }));
const bytes = fc.uint8Array({ maxLength: 300 });
const rid = text;

const ofCase = (name: string, value: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Operation> =>
  fc.record(value, { requiredKeys: [] }).map((made) => ({ operation: { case: name, value: made } }) as Operation);

const operations = fc.oneof(
  ofCase("reserve", {
    rid,
    keyHash: bytes,
    ip: text,
    model: text,
    estimateNanos: money,
    traceparent: text,
    address: text,
  }),
  ofCase("settle", { rid, accountId: text, keyId: text, costNanos: money, record: bytes }),
  ofCase("settle", {
    rid,
    accountId: text,
    keyId: text,
    costNanos: money,
    record: bytes,
    isLeased: fc.boolean(),
    leaseRid: text,
    ip: text,
  }),
  ofCase("lookupLeased", { rids: bytes, accountId: text, keyId: text }),
  ofCase("release", { rid, accountId: text, keyHash: bytes, calls: fc.nat() }),
  ofCase("lookup", { rid }),
  ofCase("lookupMany", { rids: bytes }),
  ofCase("authorize", { keyHash: bytes, ip: text, mayBeUsedUp: fc.boolean(), address: text }),
  ofCase("extend", { rid, totalNanos: money, leastNanos: money }),
  ofCase("checkpoint", { rid, costNanos: money, record: bytes }),
  ofCase("endSession", { relaySession: text }),
  ofCase("lease", { rid, keyHash: bytes, estimateNanos: money, calls: fc.nat() }),
  ofCase("draw", { rid, leaseRid: text, accountId: text, keyId: text, heldNanos: money, ip: text, holdSecret: bytes }),
  ofCase("restore", { rid, accountId: text, keyId: text, heldNanos: money, costNanos: money, record: bytes }),
);

test("a batch has the bytes that protobuf-es gives it, whatever operations are in it", () => {
  fc.assert(
    fc.property(text, fc.nat(), fc.array(operations, { maxLength: 20 }), (relaySession, batch, all) => {
      const waiting = all.map((operation) => ({ operation }));
      const message = create(SessionRequestSchema, { relaySession, batch: BigInt(batch), operations: all });
      const expected = toBinary(SessionRequestSchema, message);
      assert.deepEqual(new Uint8Array(encodeSessionRequest(relaySession, batch, waiting)), expected);
    }),
    { numRuns: 500 },
  );
});

test("every kind of operation is among those that were tried", () => {
  const tried = new Set(fc.sample(operations, 1_000).map(({ operation }) => operation?.case));
  assert.deepEqual(tried, new Set(OperationSchema.fields.map(({ localName }) => localName)));
});

type ResultInit = MessageInitShape<typeof ResultSchema>;
const verdict = fc.constantFrom(Verdict.OK, Verdict.BALANCE, Verdict.UNAVAILABLE, 99 as Verdict);
const results = fc.oneof(
  fc.constant<ResultInit>({ verdict: Verdict.OK }),
  fc.record(
    {
      verdict,
      accountId: text,
      keyId: text,
      heldNanos: money,
      retryAfterSeconds: fc.nat(),
      models: fc.array(text, { maxLength: 3 }),
      state: fc.constantFrom(CallState.POSTED, CallState.SETTLED),
      checkpointNanos: money,
      states: bytes,
      holdSecret: bytes,
      calls: fc.nat(),
      lastsMs: fc.nat(),
      ipPerMinute: fc.nat(),
      isAddressRefused: fc.boolean(),
    },
    { requiredKeys: [] },
  ),
);

const answers = fc.record({
  batch: fc.nat().map(BigInt),
  results: fc.array(results, { maxLength: 10 }),
  generation: text,
  isMaintenance: fc.option(fc.boolean(), { nil: undefined }),
  hasLookupMany: fc.boolean(),
  timeMs: money,
  isStopping: fc.boolean(),
  recalledLeases: fc.array(text, { maxLength: 3 }),
});

type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never;

const encode = ({ isMaintenance, ...rest }: Answer): Buffer =>
  Buffer.from(
    toBinary(
      SessionResponseSchema,
      create(SessionResponseSchema, { ...rest, ...(isMaintenance !== undefined && { isMaintenance }) }),
    ),
  );

test("an answer is read as protobuf-es wrote it", () => {
  fc.assert(
    fc.property(answers, (answer) => {
      const read = decodeSessionResponse(encode(answer));
      const { results: found, ...rest } = read;
      const { results: expected, batch, timeMs, ...others } = answer;
      assert.deepEqual(rest, { ...others, batch: Number(batch), timeMs: Number(timeMs) });
      assert.deepEqual(
        found.map((result) => create(ResultSchema, { ...result, states: new Uint8Array(result.states) })),
        expected.map((result) => create(ResultSchema, result)),
      );
    }),
    { numRuns: 500 },
  );
});

test("fields of a later version are passed over, in the answer and in a result", () => {
  const later = (writer: BinaryWriter): BinaryWriter =>
    writer.tag(77, WireType.LengthDelimited).string("later").tag(78, WireType.Varint).int64(5n);
  const result = later(new BinaryWriter().tag(1, WireType.Varint).int32(Verdict.BALANCE)).finish();
  const answer = later(new BinaryWriter().tag(1, WireType.Varint).uint64(7)).tag(2, WireType.LengthDelimited);
  const read = decodeSessionResponse(Buffer.from(answer.bytes(result).finish()));
  assert.deepEqual([read.batch, read.results.map((one) => one.verdict)], [7, [Verdict.BALANCE]]);
});

test("bytes that end too early are refused, not read as less", () => {
  const [results2, batch] = [[{ verdict: Verdict.OK, accountId: "acct_1", heldNanos: 5n }], 1n];
  const all = { isMaintenance: true, recalledLeases: [], hasLookupMany: true, isStopping: true, timeMs: 1n };
  const whole = encode({ batch, results: results2, generation: "g", ...all });
  const resultEnd = whole.indexOf("acct_1") + 6;
  for (const end of [resultEnd - 8, resultEnd - 1, resultEnd, whole.length - 1])
    assert.throws(() => decodeSessionResponse(whole.subarray(0, end)), String(end));
});
