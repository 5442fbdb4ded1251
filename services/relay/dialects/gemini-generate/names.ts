import { UnsupportedError } from "../conversation.ts";

/** A function as Gemini shall know it. */
type FunctionName = { name: string; isFreeText: boolean };

const allowed = /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/;
const escapedMark = "_relay.";
// Twice what any other format allows; each letter of it may become five.
const maxLength = 256;
const freeTextMark = "_relaytext.";

const escape = (name: string): string =>
  name.replaceAll(/[^A-Za-z0-9_-]/g, (unit) => `.${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

const unescape = (name: string): string =>
  name.replaceAll(/\.([0-9a-f]{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));

/**
 * A name by Gemini's rules: it begins with a letter or _, and has letters, digits and _.:- only. Other formats allow
 * names such as `7zip`, and tools that take free text, which Gemini does not have. Both are marked in the name, so that
 * an answer can be read without its request. Throws UnsupportedError for one that is longer than any format allows.
 */
export function writeName({ name, isFreeText }: FunctionName): string {
  if (name.length > maxLength) throw new UnsupportedError(`names of tools must have at most ${maxLength} characters`);
  if (isFreeText) return freeTextMark + escape(name);
  const isPlain = allowed.test(name) && !name.startsWith(escapedMark) && !name.startsWith(freeTextMark);
  return isPlain ? name : escapedMark + escape(name);
}

/** The caller's own name of a function; the other way of writeName. */
export function readName(name: string): FunctionName {
  if (name.startsWith(freeTextMark)) return { name: unescape(name.slice(freeTextMark.length)), isFreeText: true };
  const isEscaped = name.startsWith(escapedMark);
  return { name: isEscaped ? unescape(name.slice(escapedMark.length)) : name, isFreeText: false };
}
