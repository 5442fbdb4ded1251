import { isIP } from "node:net";
import { ridTimeMs } from "#shared/money/rid.ts";
import type { OperationName } from "../operation-names.ts";
import type { SessionOperation } from "./session-wire.ts";
import type { HotOperation } from "../store/hot.ts";

/** Who uses a key, as passed to quota.lua: "?" while unknown, "" when no key has the hash. */
export type Caller = { keyId: string; accountId: string; isIpCounted: boolean };

/** A validated operation. */
export type PreparedOperation = {
  name: OperationName;
  request: SessionOperation;
  /** For operations that check a key, or name their account by one: SHA-256 of its secret in base64. */
  keyHash: string | undefined;
  /** Of a reserve: the time in its rid, in milliseconds since 1970; else 0. */
  ridMs: number;
  /** The arguments of quota.lua; undefined while they depend on who uses the key. */
  operation: HotOperation | undefined;
};

/** Thrown for an operation that no correct relay sends. */
export class MalformedOperation extends Error {}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const maxRecordBytes = 65_536;
const maxModelLength = 256;
const endSessionChunk = "200";
const mostLeaseMs = 10_000;
const maxLeasedCalls = 100_000;
const ridBytes = 16;
const maxRids = 1_024;
const hashBytes = 4;

/**
 * How long a lease lasts: so long may a relay that hears nothing go on to admit calls. It ends before its money is free
 * again, because the relay counts as silent, or because Redis has lost it and grants again.
 */
export const leaseMsOf = ({ relaySilentMs, rebuildMs }: { relaySilentMs: number; rebuildMs: number }): number =>
  Math.min(mostLeaseMs, relaySilentMs, rebuildMs);

/** Validates an operation. Throws MalformedOperation. */
export function prepare(request: SessionOperation): PreparedOperation {
  const { name, rid } = request;
  switch (name) {
    case "none":
      throw new MalformedOperation("no operation is set");
    case "authorize":
      assertIp(request.ip);
      assertIp(request.address);
      return { name, request, keyHash: hashText(request.keyHash), ridMs: 0, operation: undefined };
    case "reserve":
      return prepareReserve(request);
    case "lease":
      return prepareLease(request);
    case "endSession":
      assertId("relay_session", request.relaySession);
      return fixed(request, ["end-session", request.relaySession, endSessionChunk]);
    case "lookupMany":
      return fixed(request, ["lookup-many", ridTexts(request)]);
    case "lookupLeased":
      return fixed(request, ["lookup-leased", ...ownerOf(request), ridTexts(request)]);
    default:
      assertRid(rid);
      // Of the version before, it names none.
      if (request.accountId !== "") assertId("account_id", request.accountId);
      return prepareOfCall(name, request);
  }
}

type CallOperation = "extend" | "checkpoint" | "settle" | "release" | "lookup" | "restore" | "draw";

function prepareOfCall(name: CallOperation, request: SessionOperation): PreparedOperation {
  const { rid } = request;
  switch (name) {
    case "extend": {
      const total = amount("total_nanos", request.totalNanos);
      return fixed(request, ["extend", rid, total, amount("least_nanos", request.leastNanos), request.accountId]);
    }
    case "checkpoint": {
      const cost = amount("cost_nanos", request.costNanos);
      const record = checkedRecord(request.record, request.costNanos > 0);
      return fixed(request, ["checkpoint", rid, cost, record, request.accountId]);
    }
    case "settle": {
      const [accountId, keyId] = ownerOf(request);
      const cost = amount("cost_nanos", request.costNanos);
      const record = checkedRecord(request.record, true);
      if (request.isLeased) return prepareLeased(request, [accountId, keyId, cost], record);
      return fixed(request, ["settle-own", rid, accountId, keyId, cost, record]);
    }
    case "release": {
      const isByKey = request.accountId === "" && request.keyHash.length > 0;
      const { calls } = request;
      if (calls < 0 || calls > maxLeasedCalls) throw new MalformedOperation("calls is not a number of leased calls");
      const operation: HotOperation =
        calls > 0 ? ["release-lease", rid, request.accountId, String(calls)] : [name, rid, request.accountId];
      return { ...fixed(request, operation), keyHash: isByKey ? hashText(request.keyHash) : undefined };
    }
    case "lookup":
      return fixed(request, [name, rid, request.accountId]);
    case "restore": {
      const [accountId, keyId] = ownerOf(request);
      const held = amount("held_nanos", request.heldNanos);
      const cost = amount("cost_nanos", request.costNanos);
      const record = checkedRecord(request.record, request.costNanos > 0);
      return fixed(request, ["restore", rid, accountId, keyId, held, cost, record]);
    }
    case "draw": {
      const { leaseRid, ip } = request;
      const [accountId, keyId] = ownerOf(request);
      assertRid(leaseRid);
      assertIp(ip);
      return fixed(request, ["draw", rid, leaseRid, accountId, keyId, amount("held_nanos", request.heldNanos), ip]);
    }
  }
}

/** The charge of a call that ended within a lease, which its relay may not have any more. */
function prepareLeased(
  request: SessionOperation,
  [accountId, keyId, cost]: [accountId: string, keyId: string, cost: string],
  record: Buffer,
): PreparedOperation {
  const { rid, leaseRid, ip } = request;
  if (leaseRid !== "") assertRid(leaseRid);
  assertIp(ip);
  return fixed(request, ["settle-leased", rid, leaseRid, accountId, keyId, cost, ip, record]);
}

/** The arguments of quota.lua. */
export function writeOperation(
  { request, ridMs, operation }: PreparedOperation,
  caller: Caller,
  leaseMs: number,
): HotOperation {
  if (operation) return operation;
  const { keyId, accountId, isIpCounted } = caller;
  const ip = isIpCounted ? "" : request.ip;
  if (request.name === "lease") {
    const { rid, estimateNanos, calls } = request;
    return ["lease", rid, String(ridMs), keyId, accountId, String(estimateNanos), String(calls), String(leaseMs)];
  }
  // Also where it was counted before, it is checked.
  const address = request.address === "" ? request.ip : request.address;
  if (request.name === "authorize") {
    return ["authorize", ip, keyId, accountId, request.mayBeUsedUp ? "1" : "", address];
  }
  const { rid, model, estimateNanos } = request;
  return ["reserve", rid, String(ridMs), ip, keyId, accountId, model, String(estimateNanos), address];
}

/** The same settle or draw, of a call that is proven to have been granted. */
export function asProven(prepared: PreparedOperation): PreparedOperation {
  const [name, ...values] = prepared.operation ?? [""];
  return { ...prepared, operation: [name === "settle-own" ? "settle" : `${name}-proven`, ...values] };
}

function fixed(request: SessionOperation, operation: HotOperation): PreparedOperation {
  return { name: request.name, request, keyHash: undefined, ridMs: 0, operation };
}

function prepareReserve(request: SessionOperation): PreparedOperation {
  const { rid, ip, address, model, estimateNanos, keyHash } = request;
  const ridMs = assertRid(rid);
  amount("estimate_nanos", estimateNanos);
  assertIp(ip);
  assertIp(address);
  // A line break separates the models in a key's list.
  if (model.length > maxModelLength || model.includes("\n")) throw new MalformedOperation("model is not a name");
  return { name: "reserve", request, keyHash: hashText(keyHash), ridMs, operation: undefined };
}

function prepareLease(request: SessionOperation): PreparedOperation {
  const { rid, estimateNanos, calls, keyHash } = request;
  const ridMs = assertRid(rid);
  amount("estimate_nanos", estimateNanos);
  if (calls < 1 || calls > maxLeasedCalls) throw new MalformedOperation(`calls is not within 1 and ${maxLeasedCalls}`);
  return { name: "lease", request, keyHash: hashText(keyHash), ridMs, operation: undefined };
}

function ownerOf({ accountId, keyId }: SessionOperation): [accountId: string, keyId: string] {
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

/** Concatenates rids as text. */
function ridTexts({ rids: packed, accountHashes }: SessionOperation): string {
  if (packed.length % ridBytes !== 0 || packed.length > maxRids * ridBytes) {
    throw new MalformedOperation(`rids are not at most ${maxRids} of ${ridBytes} bytes each`);
  }
  if (accountHashes.length > 0 && accountHashes.length * ridBytes !== packed.length * hashBytes) {
    throw new MalformedOperation(`account_hashes are not ${hashBytes} bytes for each of rids`);
  }
  const digits = packed.toString("hex");
  let texts = "";
  for (let at = 0; at < digits.length; at += 2 * ridBytes) {
    const part = (from: number, to: number): string => digits.slice(at + from, at + to);
    texts += `${part(0, 8)}-${part(8, 12)}-${part(12, 16)}-${part(16, 20)}-${part(20, 32)}`;
  }
  return texts;
}
