import type { Opaque } from "../conversation.ts";
import { unwrapOpaque, wrapOpaque } from "../opaque.ts";
import type { ThinkingBlock } from "./wire.ts";

const own = "anthropic-messages";

// Neither a signature nor redacted data, which are base64, can begin like these.
const redactedMark = "redacted.";
const unsignedMark = "relay.unsigned";
const attachedMark = "relay.block.";

/** State of a signed thinking block of the provider; undefined when it has no signature. */
export function signedState(signature: string | undefined): Opaque | undefined {
  return signature ? { issuer: own, value: signature } : undefined;
}

/** State of a redacted thinking block of the provider, so marked that it becomes one again. */
export function redactedState(data: string): Opaque {
  return { issuer: own, value: redactedMark + data };
}

/** State behind the signature of a thinking block that a caller gave back. */
export function readSignature(signature: string | undefined): Opaque | undefined {
  return !signature || signature === unsignedMark ? undefined : unwrapOpaque(signature, own);
}

/** State in a redacted thinking block that a caller gave back; `isAttached`: it is that of the block before it. */
export function readRedactedData(data: string): { opaque: Opaque; isAttached: boolean } {
  if (data.startsWith(attachedMark)) {
    return { opaque: unwrapOpaque(data.slice(attachedMark.length), own), isAttached: true };
  }
  const opaque = unwrapOpaque(data, own);
  return { opaque: opaque.issuer === own ? redactedState(opaque.value) : opaque, isAttached: false };
}

/** Thinking of the provider itself as the block it was; undefined when the provider has not signed it. */
export function writeOwnThinking(text: string, opaque: Opaque | undefined): ThinkingBlock | undefined {
  if (opaque?.issuer !== own) return undefined;
  if (!opaque.value.startsWith(redactedMark)) return { type: "thinking", thinking: text, signature: opaque.value };
  return { type: "redacted_thinking", data: opaque.value.slice(redactedMark.length) };
}

/**
 * What stands as the signature of anybody's thinking for a caller. Callers discard thinking without one (trap 17), so
 * thinking that nobody signed gets a mark in its place, which means nothing to anybody when it comes back.
 */
export function writeSignature(opaque: Opaque | undefined): string {
  if (!opaque) return unsignedMark;
  return opaque.issuer === own ? opaque.value : wrapOpaque(opaque);
}

/** State of thinking that has no words, as a block for a caller. */
export function writeWordlessThinking(opaque: Opaque): ThinkingBlock {
  return writeOwnThinking("", opaque) ?? { type: "redacted_thinking", data: wrapOpaque(opaque) };
}

/** Whether a block is the state of the block before it. */
export const isAttached = (block: { type: string; data?: string } | undefined): boolean =>
  block?.type === "redacted_thinking" && (block.data ?? "").startsWith(attachedMark);

/**
 * State of a text or a tool call, which have no field for it in this dialect: as redacted thinking right behind the
 * block. Callers give that back untouched. Behind the last text of an answer it is left out, because agents take the
 * last block for what was said (Claude Code 2.1 prints nothing then); no provider insists on that of a text.
 */
export function writeAttached(opaque: Opaque): ThinkingBlock {
  return { type: "redacted_thinking", data: attachedMark + wrapOpaque(opaque) };
}
