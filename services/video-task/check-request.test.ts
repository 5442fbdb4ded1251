import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { RecordKind, UsageSchema, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { ReferenceSchema, type SubmitRequest } from "#proto/video/v1/video_pb.ts";
import { checkSubmission } from "./check-request.ts";
import { makeCharge, makeSubmission } from "./testing/submissions.ts";

const referenceOf = (bytes: number, mediaType = "image/png") =>
  create(ReferenceSchema, { content: new Uint8Array(bytes), mediaType });
const chargeOf = (given: Parameters<typeof makeCharge>[0]): Partial<SubmitRequest> => ({ charge: makeCharge(given) });
const mediaMs = (units: bigint) => create(UsageSchema, { mediaMs: units });
const [route] = makeSubmission().routes;
const routesOf = (count: number): Partial<SubmitRequest> => ({ routes: Array(count).fill(route) });

const refused: [string, Partial<SubmitRequest>][] = [
  ["no charge", { charge: undefined }],
  ["a rid that is no UUIDv7", chargeOf({ rid: "0198c0de-0000-4000-8000-000000000001" })],
  ["an account that is no id", chargeOf({ accountId: "a b" })],
  ["a key that is no id", chargeOf({ keyId: "" })],
  ["no endpoint", chargeOf({ endpoint: "" })],
  ["no model", chargeOf({ modelRequested: "" })],
  ["no start", chargeOf({ startedAt: undefined })],
  ["a provisional charge", chargeOf({ kind: RecordKind.PROVISIONAL })],
  ["a charge by the provider's counts", chargeOf({ usageSource: UsageSource.PROVIDER })],
  ["a charge within a relay's numbering", chargeOf({ relaySession: "0198c0de-0000-7000-8000-000000000001" })],
  ["a charge of nothing", chargeOf({ usage: mediaMs(0n), costNanos: 0n })],
  ["a hold of nothing", chargeOf({ heldNanos: 0n })],
  ["a cost that is not units times price", chargeOf({ costNanos: 800_000_001n })],
  ["units without a price", chargeOf({ unitPriceNanos: mediaMs(0n) })],
  ["negative units", chargeOf({ usage: mediaMs(-8_000n) })],
  ["no routes", routesOf(0)],
  ["21 routes", routesOf(21)],
  ["a prompt of 32,001 characters", { prompt: "x".repeat(32_001) }],
  ["no prompt", { prompt: "" }],
  ["a prompt with NUL", { prompt: "a\0b" }],
  ["0 seconds", { seconds: 0 }],
  ["a size that is none", { size: "720p" }],
  ["a picture above 10 MiB", { reference: referenceOf(10 * 1024 * 1024 + 1) }],
  ["an empty picture", { reference: referenceOf(0) }],
  ["a picture with headers in its type", { reference: referenceOf(1, "image/png\r\nx: y") }],
  ["an idempotency key of 256 characters", { idempotencyKey: "k".repeat(256) }],
  ["a hash of 31 bytes", { requestHash: new Uint8Array(31) }],
  ["no deadline", { deadlineSeconds: 0 }],
];

for (const [name, change] of refused) {
  test(`a submission with ${name} is refused before anything is written or sent`, () => {
    assert.throws(() => checkSubmission({ ...makeSubmission(), ...change }), { code: "invalid_argument" });
  });
}

test("what is just within the limits passes, counted in characters as people count them", () => {
  const most = {
    ...routesOf(20),
    prompt: "🐈".repeat(32_000),
    reference: referenceOf(10 * 1024 * 1024),
    idempotencyKey: "🐈".repeat(255),
  };
  assert.equal(checkSubmission({ ...makeSubmission(), ...most }).intent.prompt, most.prompt);
});
