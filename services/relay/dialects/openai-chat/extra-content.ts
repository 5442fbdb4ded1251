import { unwrapOpaque, wrapOpaque } from "../opaque.ts";
import { member, stringOf } from "../dialect.ts";
import type { Opaque } from "../conversation.ts";
import type { ExtraContent, ThinkingState } from "./wire.ts";

/** State of a text or a call: Gemini's where Google's own chat endpoint has it, any other under a name of ours. */
export function writeExtra(opaque: Opaque): ExtraContent {
  if (opaque.issuer === "gemini-generate") return { google: { thought_signature: opaque.value } };
  return { relay: { state: wrapOpaque(opaque) } };
}

/** Chat providers issue no state of their own, so that text without our mark is nobody's. */
function readState(value: unknown): Opaque | undefined {
  if (typeof value !== "string") return undefined;
  const opaque = unwrapOpaque(value, "gemini-generate");
  return opaque.value === value ? undefined : opaque;
}

/** State of the text or call that this `extra_content` stands on. */
export function readExtra(extra: unknown): Opaque | undefined {
  const signature = stringOf(member(member(extra, "google"), "thought_signature"));
  if (signature) return { issuer: "gemini-generate", value: signature };
  return readState(member(member(extra, "relay"), "state"));
}

/** A block of thinking with its state, placed within the message. */
export type PlacedState = Omit<ThinkingState, "index" | "state"> & { opaque: Opaque };

const isOffset = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

function readPlaced(entry: unknown): PlacedState | undefined {
  const [start, length] = [member(entry, "start"), member(entry, "length")];
  const [content, calls] = [member(entry, "content"), member(entry, "calls")];
  const opaque = readState(member(entry, "state"));
  if (!isOffset(start) || !isOffset(length) || !isOffset(content) || !isOffset(calls) || !opaque) return undefined;
  return { start, length, content, calls, opaque };
}

/**
 * The blocks of thinking whose text is still there, in their order. Text that a client shortened no longer fits its
 * state, and an issuer refuses state beside other text: such blocks are left out.
 */
export function readThinkingStates(extra: unknown, thinkingLength: number): PlacedState[] {
  const entries = member(member(extra, "relay"), "thinking");
  if (!Array.isArray(entries)) return [];
  const placed = entries.map(readPlaced).filter((state) => state !== undefined);
  let end = 0;
  return placed.filter(({ start, length }) => {
    if (start < end || start + length > thinkingLength) return false;
    end = start + length;
    return true;
  });
}
