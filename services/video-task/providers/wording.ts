const maxMessageLength = 500;
const hidden = "[hidden]";
const fallbackMessage = "The video generation failed";

/**
 * A provider's sentence as callers may see it: at most 500 characters, on one line, without addresses and what looks
 * like a key; undefined when it is no text. Our own credential is taken out before (see read-answer.ts).
 */
export function sentenceOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const sentence = value
    .slice(0, 20_000)
    // PostgreSQL takes neither the character NUL nor half a surrogate pair.
    .replaceAll(/[\p{Cc}\s]+/gu, " ")
    .replaceAll(/https?:\/\/[^\s"')]+/g, hidden)
    .replaceAll(/\b(?:sk|org|proj|key)-[\w-]{6,}(?:\*+[\w-]*)?/g, hidden)
    .trim()
    .slice(0, maxMessageLength)
    .toWellFormed();
  return sentence === "" ? undefined : sentence;
}

/** How a task failed, by a provider's code and message; what is no code or no text gets our own. */
export function failureOf(code: unknown, message: unknown): { state: "failed"; code: string; message: string } {
  const isCode = typeof code === "string" && /^[\w.-]{1,100}$/.test(code);
  return {
    state: "failed",
    code: isCode ? code : "generation_failed",
    message: sentenceOf(message) ?? fallbackMessage,
  };
}
