import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { member, stringOf } from "../../dialects/dialect.ts";
import { keysFor } from "../../conversion/derived-key.ts";
import { RequestError } from "../../dialects/request-error.ts";

/** What a client secret stands for: a key, for one model, for a while, and how its sessions begin. */
export type ClientSecret = {
  keyHash: Uint8Array;
  model: string;
  expiresAtSeconds: number;
  /** Settings of the session, as its caller gave them. */
  session: Record<string, unknown>;
};

const prefix = "ek_relay_";
const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;
// It stands in a header, or in the protocols of a handshake.
const maxSecretCharacters = 12_288;
const maxPlainBytes = 262_144;

/** What secrets for an upstream are sealed with. */
const keyOf = keysFor("relay client secrets");

/** Whether a key is a client secret of a relay, valid or not. */
export const isClientSecret = (key: string): boolean => key.startsWith(prefix);

/** Seals a secret: nobody needs to keep it. Throws RequestError where it would be too long for a header. */
export function sealClientSecret(secret: ClientSecret, upstream: Upstream): string {
  const { keyHash, model, expiresAtSeconds, session } = secret;
  const plain = JSON.stringify([Buffer.from(keyHash).toString("base64"), model, expiresAtSeconds, session]);
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, keyOf(upstream), iv);
  const sealed = Buffer.concat([cipher.update(deflateRawSync(plain)), cipher.final()]);
  const text = prefix + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url");
  if (text.length > maxSecretCharacters) throw new RequestError("field session is too large for a client secret");
  return text;
}

function openWith(bytes: Buffer, upstream: Upstream): unknown {
  const decipher = createDecipheriv(algorithm, keyOf(upstream), bytes.subarray(0, ivBytes));
  decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  const sealed = Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]);
  return JSON.parse(inflateRawSync(sealed, { maxOutputLength: maxPlainBytes }).toString());
}

/** Opens a secret that one of these upstreams' credentials sealed; undefined for any other, and one that has ended. */
export function openClientSecret(
  text: string,
  upstreams: Iterable<Upstream>,
  nowSeconds: number,
): ClientSecret | undefined {
  if (!isClientSecret(text) || text.length > maxSecretCharacters) return undefined;
  const bytes = Buffer.from(text.slice(prefix.length), "base64url");
  if (bytes.length <= ivBytes + tagBytes) return undefined;
  for (const upstream of upstreams) {
    try {
      const [keyHash, model, expiresAtSeconds, session] = openWith(bytes, upstream) as unknown[];
      if (Number(expiresAtSeconds) <= nowSeconds) return undefined;
      return {
        keyHash: Buffer.from(String(keyHash), "base64"),
        model: String(model),
        expiresAtSeconds: Number(expiresAtSeconds),
        session: session as Record<string, unknown>,
      };
    } catch {
      // Another's.
    }
  }
  return undefined;
}

const defaultSeconds = 600;
const [minSeconds, maxSeconds] = [10, 7_200];

/** For how many seconds a secret is asked for, within the provider's own limits. Throws RequestError. */
export function readExpiry(expiresAfter: unknown): number {
  if (expiresAfter === undefined || expiresAfter === null) return defaultSeconds;
  const anchor = stringOf(member(expiresAfter, "anchor")) ?? "created_at";
  if (anchor !== "created_at") throw new RequestError('field expires_after.anchor must be "created_at"');
  const seconds = member(expiresAfter, "seconds") ?? defaultSeconds;
  if (typeof seconds !== "number" || !Number.isInteger(seconds) || seconds < minSeconds || seconds > maxSeconds) {
    throw new RequestError(`field expires_after.seconds must be an integer from ${minSeconds} to ${maxSeconds}`);
  }
  return seconds;
}
