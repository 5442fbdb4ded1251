import { isIP } from "node:net";
import { ridTimeMs } from "#shared/money/rid.ts";
import type { OperationName } from "../operation-names.ts";
import type { Asked } from "./session-wire.ts";
import type { HotOperation } from "../store/hot.ts";

/** Who uses a key, as told to the money script: "?" while it is not known, "" when no key has the hash. */
export type Caller = { keyId: string; accountId: string; isIpCounted: boolean };

/** An operation that was read and found sound. */
export type Prepared = {
  name: OperationName;
  asked: Asked;
  /** For operations that check a key: SHA-256 of its secret in base64. */
  keyHash: string | undefined;
  /** Of a reserve: the time in its rid, in milliseconds since 1970; else 0. */
  ridMs: number;
  /** As the money script takes it; undefined while it depends on who uses the key. */
  operation: HotOperation | undefined;
};

/** Thrown for an operation that no correct relay sends; the message says what is wrong with it. */
export class MalformedOperation extends Error {}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const maxRecordBytes = 65_536;
const maxModelLength = 256;
const endSessionChunk = "200";
const ridBytes = 16;
const maxRids = 1_024;

/** Reads one operation. Throws MalformedOperation. */
export function prepare(asked: Asked): Prepared {
  const { name, rid } = asked;
  switch (name) {
    case "none":
      throw new MalformedOperation("no operation is set");
    case "authorize":
      assertIp(asked.ip);
      return { name, asked, keyHash: hashText(asked.bytes), ridMs: 0, operation: undefined };
    case "reserve":
      return prepareReserve(asked);
    case "endSession":
      assertId("relay_session", asked.relaySession);
      return fixed(asked, ["end-session", asked.relaySession, endSessionChunk]);
    case "lookupMany":
      return fixed(asked, ["lookup-many", ridTexts(asked.bytes)]);
    default:
      assertRid(rid);
      return prepareOfCall(name, asked);
  }
}

type OfCall = "extend" | "checkpoint" | "settle" | "release" | "lookup" | "restore";

function prepareOfCall(name: OfCall, asked: Asked): Prepared {
  const { rid } = asked;
  switch (name) {
    case "extend": {
      const total = amount("total_nanos", asked.nanos);
      return fixed(asked, ["extend", rid, total, amount("least_nanos", asked.otherNanos)]);
    }
    case "checkpoint": {
      const cost = amount("cost_nanos", asked.nanos);
      return fixed(asked, ["checkpoint", rid, cost, checkedRecord(asked.bytes, asked.nanos > 0)]);
    }
    case "settle": {
      const [accountId, keyId] = ownerOf(asked);
      const cost = amount("cost_nanos", asked.nanos);
      return fixed(asked, ["settle", rid, accountId, keyId, cost, checkedRecord(asked.bytes, true)]);
    }
    case "release":
    case "lookup":
      return fixed(asked, [name, rid]);
    case "restore": {
      const [accountId, keyId] = ownerOf(asked);
      const held = amount("held_nanos", asked.nanos);
      const cost = amount("cost_nanos", asked.otherNanos);
      const record = checkedRecord(asked.bytes, asked.otherNanos > 0);
      return fixed(asked, ["restore", rid, accountId, keyId, held, cost, record]);
    }
  }
}

/** The operation as the money script takes it. */
export function writeOperation({ asked, ridMs, operation }: Prepared, caller: Caller): HotOperation {
  if (operation) return operation;
  const { keyId, accountId, isIpCounted } = caller;
  const ip = isIpCounted ? "" : asked.ip;
  if (asked.name === "authorize") return ["authorize", ip, keyId, accountId, asked.mayBeUsedUp ? "1" : ""];
  return ["reserve", asked.rid, String(ridMs), ip, keyId, accountId, asked.model, String(asked.nanos)];
}

function fixed(asked: Asked, operation: HotOperation): Prepared {
  return { name: asked.name, asked, keyHash: undefined, ridMs: 0, operation };
}

function prepareReserve(asked: Asked): Prepared {
  const { rid, ip, model, nanos, bytes } = asked;
  const ridMs = assertRid(rid);
  amount("estimate_nanos", nanos);
  assertIp(ip);
  // A line break separates the models in a key's list.
  if (model.length > maxModelLength || model.includes("\n")) throw new MalformedOperation("model is not a name");
  return { name: "reserve", asked, keyHash: hashText(bytes), ridMs, operation: undefined };
}

function ownerOf({ accountId, keyId }: Asked): [accountId: string, keyId: string] {
  assertId("account_id", accountId);
  assertId("key_id", keyId);
  return [accountId, keyId];
}

function assertRid(rid: string): number {
  const ridMs = ridTimeMs(rid);
  if (ridMs === undefined) throw new MalformedOperation("rid is not a UUIDv7");
  return ridMs;
}

function amount(name: string, nanos: number): string {
  if (nanos < 0 || !Number.isSafeInteger(nanos)) {
    throw new MalformedOperation(`${name} is not within 0 and 2^53 - 1`);
  }
  return String(nanos);
}

function assertId(name: string, id: string): void {
  if (!idPattern.test(id)) throw new MalformedOperation(`${name} is not an id`);
}

function assertIp(ip: string): void {
  if (ip !== "" && (isIP(ip) === 0 || ip.length > 64)) throw new MalformedOperation("ip is not an address");
}

function hashText(hash: Buffer): string {
  if (hash.length !== 32) throw new MalformedOperation("key_hash is not 32 bytes long");
  return hash.toString("base64");
}

function checkedRecord(record: Buffer, isNeeded: boolean): Buffer {
  if (isNeeded && record.length === 0) throw new MalformedOperation("record is empty");
  if (record.length > maxRecordBytes) throw new MalformedOperation(`record is above ${maxRecordBytes} bytes`);
  return record;
}

/** Rids as texts, one behind the other. */
function ridTexts(packed: Buffer): string {
  if (packed.length % ridBytes !== 0 || packed.length > maxRids * ridBytes) {
    throw new MalformedOperation(`rids are not at most ${maxRids} of ${ridBytes} bytes each`);
  }
  const digits = packed.toString("hex");
  let texts = "";
  for (let at = 0; at < digits.length; at += 2 * ridBytes) {
    const part = (from: number, to: number): string => digits.slice(at + from, at + to);
    texts += `${part(0, 8)}-${part(8, 12)}-${part(12, 16)}-${part(16, 20)}-${part(20, 32)}`;
  }
  return texts;
}
