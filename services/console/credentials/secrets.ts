import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from "node:crypto";

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const firstVersion = 1;
// One in use, one that comes and one that goes.
const maxKeys = 3;

/** Seals what must be read again; for what needs only be compared, hashes are kept. */
export type SecretBox = {
  /** `about` is bound in: what was sealed for one person does not open for another. */
  seal: (plain: Uint8Array, about: string) => Buffer;
  /** Throws when it was sealed with none of the keys or for something else, or was changed. */
  open: (sealed: Buffer, about: string) => Buffer;
  /** Sealed with the first key; undefined when it is so already. Throws as `open` does. */
  reseal: (sealed: Buffer, about: string) => Buffer | undefined;
  /** Whether there are keys besides the first. */
  isRotating: boolean;
  /** A key of its own for another purpose, the same in every replica with the same first key. */
  deriveKey: (purpose: string) => Buffer;
};

/**
 * Reads the content of SECRETS_KEY_FILE: one to three keys of 32 bytes as base64, with white space between them, the
 * one in use first. Throws an Error that says so, without the content.
 */
export function readSecretsKeys(content: string): [Buffer, ...Buffer[]] {
  const lines = content.trim().split(/\s+/);
  const keys = lines.map((line) => Buffer.from(line, "base64"));
  const [first, ...others] = keys;
  const areSound = keys.every((key, at) => key.length === keyBytes && key.toString("base64") === lines[at]);
  if (!areSound || !first || keys.length > maxKeys) {
    const many = `or up to ${maxKeys} such keys`;
    throw new Error(
      `SECRETS_KEY_FILE must hold 32 bytes as base64, as \`openssl rand -base64 32\` writes them, ${many}`,
    );
  }
  return [first, ...others];
}

const deriveFrom = (key: Buffer, purpose: string): Buffer =>
  Buffer.from(hkdfSync("sha256", key, "", purpose, keyBytes));

/** AES-256-GCM; a sealed text is version, nonce, tag and cipher text. The first key seals, each of them opens. */
export function createSecretBox(keys: readonly [Buffer, ...Buffer[]]): SecretBox {
  const [first] = keys;
  const [sealing, ...former] = keys.map((key) => deriveFrom(key, "console sealing")) as [Buffer, ...Buffer[]];
  const seal: SecretBox["seal"] = (plain, about) => {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv("aes-256-gcm", sealing, nonce).setAAD(Buffer.from(about));
    const text = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([Buffer.of(firstVersion), nonce, cipher.getAuthTag(), text]);
  };
  return {
    seal,
    open: (sealed, about) => openWithAny([sealing, ...former], sealed, about),
    reseal: (sealed, about) => {
      try {
        openSealed(sealing, sealed, about);
        return undefined;
      } catch {
        return seal(openWithAny(former, sealed, about), about);
      }
    },
    isRotating: former.length > 0,
    deriveKey: (purpose) => deriveFrom(first, purpose),
  };
}

function openWithAny([key, ...others]: readonly Buffer[], sealed: Buffer, about: string): Buffer {
  if (!key) throw new Error("no key opens this secret");
  try {
    return openSealed(key, sealed, about);
  } catch {
    return openWithAny(others, sealed, about);
  }
}

function openSealed(key: Buffer, sealed: Buffer, about: string): Buffer {
  if (sealed[0] !== firstVersion) throw new Error("a sealed secret has an unknown version");
  const nonce = sealed.subarray(1, 1 + nonceBytes);
  const tag = sealed.subarray(1 + nonceBytes, 1 + nonceBytes + tagBytes);
  const options = { authTagLength: tagBytes };
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, options).setAAD(Buffer.from(about));
  decipher.setAuthTag(tag);
  return Buffer.concat([decipher.update(sealed.subarray(1 + nonceBytes + tagBytes)), decipher.final()]);
}

/** A token that nobody guesses: 256 random bits, as 43 characters for cookies and links. */
export function createToken(): string {
  return randomBytes(32).toString("base64url");
}

/** What is kept of a token. SHA-256 is enough for random bits; passwords have Argon2. */
export function hashToken(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

/** Random letters of an alphabet of 32: of a random byte, each is then as likely as any other. */
export const randomLetters = (alphabet: string, length: number): string =>
  [...randomBytes(length)].map((byte) => alphabet[byte % alphabet.length]).join("");
