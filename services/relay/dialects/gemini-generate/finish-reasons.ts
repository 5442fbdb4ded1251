import { member, stringOf } from "../dialect.ts";
import type { FinishReason } from "../reply.ts";

/** What `finishReason` says; undefined while the answer goes on. */
export function endingOf(candidate: unknown): string | undefined {
  const reason = stringOf(member(candidate, "finishReason"));
  return reason === "" || reason === "FINISH_REASON_UNSPECIFIED" ? undefined : reason;
}

const refusals = new Set([
  "SAFETY",
  "RECITATION",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
  "MODEL_ARMOR",
  "ESCALATION",
  // The operator's account was limited for what it is used for.
  "PUP_LIMITED_DISABLED",
  "IMAGE_SAFETY",
  "IMAGE_PROHIBITED_CONTENT",
  "IMAGE_RECITATION",
  "IMAGE_OTHER",
]);

/**
 * Only what was held back for its content is a refusal. MALFORMED_FUNCTION_CALL, LANGUAGE, OTHER and reasons not known
 * yet are plain ends, and STOP stands behind calls too.
 */
export function finishReasonOf(ending: string, hasCalls: boolean): FinishReason {
  if (ending === "MAX_TOKENS" || ending === "CONTINUATION") return "length";
  if (refusals.has(ending)) return "refusal";
  return hasCalls ? "calls" : "stop";
}

/** Why a prompt was refused; the answer has no candidates then. */
export function blockReasonOf(answer: unknown): string | undefined {
  return stringOf(member(member(answer, "promptFeedback"), "blockReason")) || undefined;
}
