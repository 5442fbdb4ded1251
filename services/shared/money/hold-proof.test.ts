import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { hasProof, holdProof, holdSecret, isProven, readProofKeys, withProof } from "./hold-proof.ts";

const [first, second] = [randomBytes(32), randomBytes(32)];
const owner = { rid: "0198c0de-0000-7000-8000-000000000001", accountId: "acct_one", keyId: "key_one" };
const { rid, accountId, keyId } = owner;
const body = toBinary(UsageRecordedSchema, create(UsageRecordedSchema, { rid, accountId, keyId, costNanos: 400n }));

describe("a proof", () => {
  it("is an HMAC by the call's secret, which is one by the installation's key", () => {
    const bytes = fc.uint8Array({ maxLength: 5_000 });
    fc.assert(
      fc.property(bytes, (record) => {
        const text = `${rid}\n${accountId}\n${keyId}`;
        const secret = createHmac("sha256", first).update(text).digest().subarray(0, 16);
        assert.ok(holdSecret(first, owner).equals(secret));
        const proof = createHmac("sha256", secret).update(record).digest().subarray(0, 16);
        assert.ok(holdProof(secret, record).equals(proof));
      }),
    );
  });

  it("is a field of the record, in front of all others", () => {
    const secret = holdSecret(first, owner);
    const record = withProof(secret, body);
    const { holdProof: found, ...rest } = fromBinary(UsageRecordedSchema, record);
    assert.ok(holdProof(secret, body).equals(found));
    assert.deepEqual({ ...rest, holdProof: new Uint8Array() }, { ...fromBinary(UsageRecordedSchema, body) });
    assert.deepEqual([hasProof(record), hasProof(body)], [true, false]);
    assert.equal(withProof(new Uint8Array(), body), body);
  });

  it("holds by any key of the installation, and for nothing else than what was proven", () => {
    const record = withProof(holdSecret(first, owner), body);
    assert.ok(isProven([first], owner, record));
    assert.ok(isProven([second, first], owner, record), "by a key that was replaced");
    assert.ok(!isProven([second], owner, record));
    assert.ok(!isProven([first], owner, body), "none");
    for (const other of [{ rid: rid.replace("1", "2") }, { accountId: "acct_two" }, { keyId: "key_two" }]) {
      assert.ok(!isProven([first], { ...owner, ...other }, record), JSON.stringify(other));
    }
    for (let index = 0; index < record.length; index += 1) {
      const changed = Buffer.from(record);
      changed[index] = (changed[index] ?? 0) ^ 1;
      assert.ok(!isProven([first], owner, changed), `byte ${index}`);
      assert.ok(!isProven([first], owner, record.subarray(0, index)), `cut at ${index}`);
    }
    assert.ok(!isProven([first], owner, Buffer.concat([record, body])), "with more behind it");
  });
});

describe("HOLD_PROOF_KEYS", () => {
  it("are one or several of 32 bytes", () => {
    const text = [first, second].map((key) => key.toString("base64")).join(", ");
    assert.deepEqual(readProofKeys(text), [first, second]);
  });
  it("are refused without being told", () => {
    const short = randomBytes(31).toString("base64");
    for (const wrong of ["", short, `${first.toString("base64")},`, "not a key", `${short},${short}`]) {
      assert.throws(() => readProofKeys(wrong), /^Error: HOLD_PROOF_KEYS must be 1 to 8 keys of 32 bytes as base64/);
      try {
        readProofKeys(wrong);
      } catch (error) {
        assert.ok(wrong === "" || !String(error).includes(wrong));
      }
    }
  });
});
