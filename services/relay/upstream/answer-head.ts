import type { AnswerKind } from "../dialects/dialect.ts";
import type { Answer } from "./send.ts";

export const isEncoded = ({ headers }: Answer): boolean => (headers["content-encoding"] ?? "identity") !== "identity";

export const contentTypeOf = ({ headers }: Answer): string => String(headers["content-type"] ?? "");

// Errors, and pages of something in between, which nobody would hear as sound.
const wordsType = /^(?:text\/|application\/(?:[\w.+-]+\+)?(?:json|xml)\b)/i;

/** Whether the answer is one that passes while it comes. */
export function isFlowing(answer: Answer, kind: AnswerKind): boolean {
  if (isEncoded(answer)) return false;
  const type = contentTypeOf(answer).trimStart();
  if (kind === "bytes") return !wordsType.test(type);
  return kind === "events" && /^text\/event-stream\b/i.test(type);
}
