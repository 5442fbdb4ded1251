import { isIP } from "node:net";
import type { Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { maxAccountNanos } from "#shared/money.ts";
import { ridTimeMs } from "#shared/rid.ts";
import type { HotOperation } from "./store/hot.ts";

/** Names of the operations as metrics and logs show them. */
export type OperationName = NonNullable<Operation["operation"]["case"]> | "none";

/** Who uses a key, as told to the money script: "?" while it is not known, "" when no key has the hash. */
export type Caller = { keyId: string; accountId: string; isIpCounted: boolean };

/** An operation that was read and found sound. */
export type Prepared = {
  name: OperationName;
  /** The call; "" for operations that are not about one. */
  rid: string;
  /** For operations that check a key: SHA-256 of its secret in base64. */
  keyHash: string | undefined;
  write: (caller: Caller) => HotOperation;
};

/** Thrown for an operation that no correct relay sends; the message says what is wrong with it. */
export class MalformedOperation extends Error {}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const maxRecordBytes = 65_536;
const maxModelLength = 256;
const endSessionChunk = "200";

/** Reads one operation. Throws MalformedOperation. */
export function prepare({ operation }: Operation): Prepared {
  const { case: name, value } = operation;
  if (name === undefined) throw new MalformedOperation("no operation is set");
  if (name === "authorize") return prepareAuthorize(value.ip, value.keyHash);
  if (name === "reserve") return prepareReserve(value);
  if (name === "endSession") {
    assertId("relay_session", value.relaySession);
    return fixed(name, "", ["end-session", value.relaySession, endSessionChunk]);
  }
  const { rid } = value;
  timeOf(rid);
  switch (name) {
    case "extend":
      return fixed(name, rid, [
        "extend",
        rid,
        amount("total_nanos", value.totalNanos),
        amount("least_nanos", value.leastNanos),
      ]);
    case "checkpoint": {
      const cost = amount("cost_nanos", value.costNanos);
      return fixed(name, rid, ["checkpoint", rid, cost, bytes(value.record, value.costNanos > 0n)]);
    }
    case "settle": {
      assertId("account_id", value.accountId);
      assertId("key_id", value.keyId);
      const cost = amount("cost_nanos", value.costNanos);
      return fixed(name, rid, ["settle", rid, value.accountId, value.keyId, cost, bytes(value.record, true)]);
    }
    case "release":
      return fixed(name, rid, ["release", rid]);
    case "lookup":
      return fixed(name, rid, ["lookup", rid]);
    case "restore":
      return prepareRestore(value);
  }
}

function fixed(name: OperationName, rid: string, operation: HotOperation): Prepared {
  return { name, rid, keyHash: undefined, write: () => operation };
}

function prepareAuthorize(ip: string, hash: Uint8Array): Prepared {
  assertIp(ip);
  return {
    name: "authorize",
    rid: "",
    keyHash: hashText(hash),
    write: ({ keyId, accountId, isIpCounted }) => ["authorize", isIpCounted ? "" : ip, keyId, accountId],
  };
}

type ReserveValue = Extract<Operation["operation"], { case: "reserve" }>["value"];

function prepareReserve({ rid, ip, model, estimateNanos, keyHash }: ReserveValue): Prepared {
  const ridMs = String(timeOf(rid));
  const estimate = amount("estimate_nanos", estimateNanos);
  assertIp(ip);
  // A line break separates the models in a key's list.
  if (model.length > maxModelLength || model.includes("\n")) throw new MalformedOperation("model is not a name");
  return {
    name: "reserve",
    rid,
    keyHash: hashText(keyHash),
    write: ({ keyId, accountId, isIpCounted }) => [
      "reserve",
      rid,
      ridMs,
      isIpCounted ? "" : ip,
      keyId,
      accountId,
      model,
      estimate,
    ],
  };
}

type RestoreValue = Extract<Operation["operation"], { case: "restore" }>["value"];

function prepareRestore({ rid, accountId, keyId, heldNanos, costNanos, record }: RestoreValue): Prepared {
  assertId("account_id", accountId);
  assertId("key_id", keyId);
  const [held, cost] = [amount("held_nanos", heldNanos), amount("cost_nanos", costNanos)];
  return fixed("restore", rid, ["restore", rid, accountId, keyId, held, cost, bytes(record, costNanos > 0n)]);
}

function timeOf(rid: string): number {
  const timeMs = ridTimeMs(rid);
  if (timeMs === undefined) throw new MalformedOperation("rid is not a UUIDv7");
  return timeMs;
}

function amount(name: string, nanos: bigint): string {
  if (nanos < 0n || nanos > maxAccountNanos) throw new MalformedOperation(`${name} is not within 0 and 2^53 - 1`);
  return nanos.toString();
}

function assertId(name: string, id: string): void {
  if (!idPattern.test(id)) throw new MalformedOperation(`${name} is not an id`);
}

function assertIp(ip: string): void {
  if (ip !== "" && (isIP(ip) === 0 || ip.length > 64)) throw new MalformedOperation("ip is not an address");
}

function hashText(hash: Uint8Array): string {
  if (hash.length !== 32) throw new MalformedOperation("key_hash is not 32 bytes long");
  return Buffer.from(hash.buffer, hash.byteOffset, hash.length).toString("base64");
}

function bytes(record: Uint8Array, isNeeded: boolean): Buffer {
  if (isNeeded && record.length === 0) throw new MalformedOperation("record is empty");
  if (record.length > maxRecordBytes) throw new MalformedOperation(`record is above ${maxRecordBytes} bytes`);
  return Buffer.from(record.buffer, record.byteOffset, record.length);
}
