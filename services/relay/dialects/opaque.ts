import type { Issuer, Opaque } from "./conversation.ts";

/** What every note of ours begins with. */
export const ourNote = "relay.";

// Behind it: the issuer, then what it gave. No provider's own state begins like this.
const mark = "relay.1.";
const issuers: readonly Issuer[] = ["openai-responses", "anthropic-messages", "gemini-generate", "openai-chat"];

/** Opaque state as one text for a field of another dialect, so that it comes back to its issuer and to nobody else. */
export function wrapOpaque({ issuer, value }: Opaque): string {
  return `${mark}${issuer}.${value}`;
}

/** Opaque state that a caller gave back in a field of dialect `own`: ours by its mark, else the dialect's own. */
export function unwrapOpaque(text: string, own: Issuer): Opaque {
  const issuer = issuers.find((name) => text.startsWith(`${mark}${name}.`));
  if (issuer === undefined) return { issuer: own, value: text };
  return { issuer, value: text.slice(mark.length + issuer.length + 1) };
}

/** Whether a text is a note of ours, which no provider may get as its own state. */
export function isOurNote(text: unknown): boolean {
  return typeof text === "string" && text.startsWith(ourNote);
}
