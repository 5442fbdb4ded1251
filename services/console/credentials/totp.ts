import { hash, randomBytes } from "node:crypto";
import { Secret, TOTP } from "otpauth";
import { encode } from "uqr";
import { html, type Markup } from "../html/html.ts";
import { randomLetters } from "./secrets.ts";

const issuer = "Relay console";
const periodSeconds = 30;
const secretBytes = 20;

/** A new shared secret (RFC 4226 asks for 160 bits). */
export function createTotpSecret(): Buffer {
  return randomBytes(secretBytes);
}

/** The step (30 s since 1970) of a right code, one step early or late allowed; undefined for a wrong one. */
export function stepOfCode(secret: Uint8Array, code: string, nowMs: number): number | undefined {
  const delta = totpOf(secret, "").validate({ token: code, timestamp: nowMs, window: 1 });
  return delta === null ? undefined : Math.floor(nowMs / 1_000 / periodSeconds) + delta;
}

function totpOf(secret: Uint8Array, label: string): TOTP {
  const buffer = Uint8Array.from(secret).buffer;
  return new TOTP({ issuer, label, secret: new Secret({ buffer }), digits: 6, period: periodSeconds });
}

/** The secret for typing into an app, in groups of four. */
export function secretInWords(secret: Uint8Array): string {
  return inGroups(totpOf(secret, "").secret.base32);
}

/** The QR code for an app to read, as an SVG that needs neither script nor style. */
export function qrOf(secret: Uint8Array, email: string): Markup {
  // A border of four modules is what readers are promised (ISO/IEC 18004).
  const { data, size } = encode(totpOf(secret, email).toString(), { ecc: "M", border: 4 });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="QR code for your authenticator app">
    <rect width="${size}" height="${size}" fill="#fff" />
    <path d="${dark.join("")}" fill="#000" />
  </svg>`;
}

const recoveryCodes = 10;
const recoveryLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const recoveryLength = 16;

/** Ten codes of 80 random bits, in letters that are not mistaken for one another. */
export function createRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodes }, () => inGroups(randomLetters(recoveryLetters, recoveryLength)));
}

/** What is kept of a recovery code, however its letters were typed; undefined when it cannot be one. */
export function hashRecoveryCode(typed: string): Buffer | undefined {
  const plain = typed.toUpperCase().replaceAll(/[\s-]/g, "");
  if (plain.length !== recoveryLength) return undefined;
  return hash("sha256", plain, "buffer");
}

const inGroups = (text: string): string => text.match(/.{1,4}/g)?.join("-") ?? "";
