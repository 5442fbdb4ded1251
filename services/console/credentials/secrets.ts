import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from "node:crypto";

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const firstVersion = 1;

/** Seals what must be read again; for what needs only be compared, hashes are kept. */
export type SecretBox = {
  /** `about` is bound in: what was sealed for one person does not open for another. */
  seal: (plain: Uint8Array, about: string) => Buffer;
  /** Throws when it was sealed with another key or for something else, or was changed. */
  open: (sealed: Buffer, about: string) => Buffer;
  /** A key of its own for another purpose, the same in every replica. */
  deriveKey: (purpose: string) => Buffer;
};

/** Reads the content of SECRETS_KEY_FILE: 32 bytes as base64. Throws an Error that says so, without the content. */
export function readSecretsKey(content: string): Buffer {
  const key = Buffer.from(content.trim(), "base64");
  if (key.length !== keyBytes || key.toString("base64") !== content.trim()) {
    throw new Error("SECRETS_KEY_FILE must hold 32 bytes as base64, as `openssl rand -base64 32` writes them");
  }
  return key;
}

/** AES-256-GCM; a sealed text is version, nonce, tag and cipher text. */
export function createSecretBox(key: Buffer): SecretBox {
  const deriveKey = (purpose: string): Buffer => Buffer.from(hkdfSync("sha256", key, "", purpose, keyBytes));
  const sealing = deriveKey("console sealing");
  return {
    seal: (plain, about) => {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", sealing, nonce).setAAD(Buffer.from(about));
      const text = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([Buffer.of(firstVersion), nonce, cipher.getAuthTag(), text]);
    },
    open: (sealed, about) => {
      if (sealed[0] !== firstVersion) throw new Error("a sealed secret has an unknown version");
      const nonce = sealed.subarray(1, 1 + nonceBytes);
      const tag = sealed.subarray(1 + nonceBytes, 1 + nonceBytes + tagBytes);
      const options = { authTagLength: tagBytes };
      const decipher = createDecipheriv("aes-256-gcm", sealing, nonce, options).setAAD(Buffer.from(about));
      decipher.setAuthTag(tag);
      return Buffer.concat([decipher.update(sealed.subarray(1 + nonceBytes + tagBytes)), decipher.final()]);
    },
    deriveKey,
  };
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
