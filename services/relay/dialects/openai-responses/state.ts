import type { Opaque } from "../conversation.ts";
import { unwrapOpaque, wrapOpaque } from "../opaque.ts";

const own = "openai-responses";
// In front of a value that belongs to the item before; no provider's state has a colon.
const itemMark = "item:";

/** Opaque state as `encrypted_content` of a reasoning item. */
export const writeState = (opaque: Opaque): string => (opaque.issuer === own ? opaque.value : wrapOpaque(opaque));

/**
 * State of a text or call of another provider, which has no place in their items: a reasoning item right behind holds
 * it, marked as theirs.
 */
export const writeItemState = ({ issuer, value }: Opaque): string =>
  wrapOpaque({ issuer, value: `${itemMark}${value}` });

/** Reads `encrypted_content` that a caller gave back; `isOfItem`: whether it belongs to the item before. */
export function readState(text: string): { opaque: Opaque; isOfItem: boolean } {
  const opaque = unwrapOpaque(text, own);
  const isOfItem = opaque.value !== text && opaque.value.startsWith(itemMark);
  if (!isOfItem) return { opaque, isOfItem };
  return { opaque: { issuer: opaque.issuer, value: opaque.value.slice(itemMark.length) }, isOfItem };
}
