import { hash, timingSafeEqual } from "node:crypto";
import { ridTimeMs } from "./rid.ts";

// What shows billing that a usage record is of a call for which auth-quota has granted a hold. Whoever may publish to
// the stream, or reads it, can make no proof: it takes the hold's secret, which only auth-quota and billing can derive,
// and which only the relay of the call was given (and video-task, for a video).
//
//   secret = HMAC-SHA-256(key of the installation, rid, account and key of the call), cut to 16 bytes
//   proof  = HMAC-SHA-256(secret, all other bytes of the record), cut to 16 bytes
//
// A relay that holds a lease on a key makes the secrets of its calls itself, for the hour or two of the lease:
//
//   lease  = HMAC-SHA-256(key of the installation, "lease", account, key of the call, hour of the rid), cut to 16 bytes
//   secret = HMAC-SHA-256(lease, rid), cut to 16 bytes

/** Whose hold it is. */
export type HoldOwner = { rid: string; accountId: string; keyId: string };

const secretBytes = 16;
const keyBytes = 32;
const maxKeys = 8;

/** Reads HOLD_PROOF_KEYS. Throws an Error that says what they must be, without any of them. */
export function readProofKeys(text: string): [Buffer, ...Buffer[]] {
  const keys = text.split(",").map((part) => Buffer.from(part.trim(), "base64"));
  if (keys.length > maxKeys || keys.some(({ length }) => length !== keyBytes)) {
    throw new Error(`HOLD_PROOF_KEYS must be 1 to ${maxKeys} keys of ${keyBytes} bytes as base64, separated by commas`);
  }
  return keys as [Buffer, ...Buffer[]];
}

/** What a relay proves the records of a call by. */
export function holdSecret(key: Uint8Array, owner: HoldOwner): Buffer {
  return keyedHash(key, Buffer.from(`${owner.rid}\n${owner.accountId}\n${owner.keyId}`));
}

const hourMs = 3_600_000;
const hourOf = (ridMs: number): number => Math.floor(ridMs / hourMs);

type Payer = Pick<HoldOwner, "accountId" | "keyId">;

const leaseSecret = (key: Uint8Array, { accountId, keyId }: Payer, hour: number): Buffer =>
  keyedHash(key, Buffer.from(`lease\n${accountId}\n${keyId}\n${hour}`));

/** What a relay makes the secrets of a key's calls of, by a lease whose rid is of this time: its hour and the next. */
export function leaseSecrets(key: Uint8Array, payer: Payer, ridMs: number): Buffer {
  const hour = hourOf(ridMs);
  return Buffer.concat([leaseSecret(key, payer, hour), leaseSecret(key, payer, hour + 1)]);
}

/** The secret of a call within a lease; undefined for a rid of another hour than its two. */
export function leasedSecret(secrets: Uint8Array, leaseRid: string, rid: string): Buffer | undefined {
  const later = hourOf(ridTimeMs(rid) ?? 0) - hourOf(ridTimeMs(leaseRid) ?? 0);
  if (later !== 0 && later !== 1) return undefined;
  return keyedHash(secrets.subarray(later * secretBytes, (later + 1) * secretBytes), Buffer.from(rid));
}

/** The proof of a record, given its other bytes. */
export const holdProof = (secret: Uint8Array, rest: Uint8Array): Buffer => keyedHash(secret, rest);

// Field 27 of usage.v1.UsageRecorded, 16 bytes. It is written first, and its place is what makes the rest a text of
// bytes that nobody has to encode again.
const proofHead = Buffer.from([0xda, 0x01, secretBytes]);
const restAt = proofHead.length + secretBytes;

/** An encoded record without a proof, with its proof; as it is where there is no secret. */
export function withProof(secret: Uint8Array, rest: Uint8Array): Uint8Array {
  return secret.length === 0 ? rest : Buffer.concat([proofHead, holdProof(secret, rest), rest]);
}

/** Whether a record begins with a proof; it may be any. */
export const hasProof = (record: Uint8Array): boolean =>
  record.length > restAt && proofHead.every((byte, index) => record[index] === byte);

/** What the relay proves the records of a call within a lease by. */
function leasedHoldSecret(key: Uint8Array, owner: HoldOwner): Buffer {
  const lease = leaseSecret(key, owner, hourOf(ridTimeMs(owner.rid) ?? 0));
  return keyedHash(lease, Buffer.from(owner.rid));
}

/** Whether a record is proven to be of a hold of this owner, by any of the keys. */
export function isProven(keys: readonly Uint8Array[], owner: HoldOwner, record: Uint8Array): boolean {
  if (!hasProof(record)) return false;
  const proof = record.subarray(proofHead.length, restAt);
  const rest = record.subarray(restAt);
  const isBy = (secret: Buffer): boolean => timingSafeEqual(holdProof(secret, rest), proof);
  return keys.some((key) => isBy(holdSecret(key, owner)) || isBy(leasedHoldSecret(key, owner)));
}

/** Whether these bytes are the secret of a hold of this owner, by any of the keys. */
export const isHoldSecret = (keys: readonly Uint8Array[], owner: HoldOwner, secret: Uint8Array): boolean =>
  secret.length === secretBytes &&
  keys.some(
    (key) => timingSafeEqual(holdSecret(key, owner), secret) || timingSafeEqual(leasedHoldSecret(key, owner), secret),
  );

const blockBytes = 64;
const digestBytes = 32;
const outer = Buffer.alloc(blockBytes + digestBytes);
let inner = Buffer.alloc(blockBytes + 2_048);

// HMAC (RFC 2104) in two calls of hash(): createHmac takes ten times as long for what is done for every call.
function keyedHash(key: Uint8Array, message: Uint8Array): Buffer {
  const length = blockBytes + message.length;
  if (length > inner.length) inner = Buffer.alloc(2 * length);
  inner.fill(0x36, 0, blockBytes);
  outer.fill(0x5c, 0, blockBytes);
  for (let index = 0; index < key.length; index += 1) {
    const byte = key[index] ?? 0;
    inner[index] = byte ^ 0x36;
    outer[index] = byte ^ 0x5c;
  }
  inner.set(message, blockBytes);
  outer.write(hash("sha256", inner.subarray(0, length), "binary"), blockBytes, digestBytes, "latin1");
  return Buffer.from(hash("sha256", outer, "binary").slice(0, secretBytes), "latin1");
}
