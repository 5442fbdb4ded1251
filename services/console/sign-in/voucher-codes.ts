import { hash } from "node:crypto";
import { randomLetters } from "../credentials/secrets.ts";

// Crockford's Base32: without I, L, O and U, so that codes are read out and typed without mistakes.
const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const length = 20;
const code = new RegExp(`^[${letters}]{${length}}$`);

/** A code of 100 random bits in groups of five letters. */
export function createVoucherCode(): string {
  return randomLetters(letters, length).match(/.{5}/g)?.join("-") ?? "";
}

/** What is kept of a code, however its letters were typed; undefined when it cannot be one. */
export function hashVoucherCode(typed: string): Buffer | undefined {
  const plain = typed
    .toUpperCase()
    .replaceAll(/[\s\p{Pd}]/gu, "")
    .replaceAll("O", "0")
    .replaceAll(/[IL]/g, "1");
  return code.test(plain) ? hash("sha256", plain, "buffer") : undefined;
}
