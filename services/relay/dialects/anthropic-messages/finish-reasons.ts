import type { Ending, FinishReason } from "../reply.ts";

const reasons = new Map<string, FinishReason>([
  ["end_turn", "stop"],
  ["stop_sequence", "stop-sequence"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_use", "calls"],
  ["refusal", "refusal"],
  ["pause_turn", "pause"],
  // Of a beta: who asked for it goes on with what was compacted.
  ["compaction", "pause"],
]);

/** A `stop_reason` that is not known yet counts as a plain end: every other reason asks something of the caller. */
export function readStopReason(reason: string): FinishReason {
  return reasons.get(reason) ?? "stop";
}

const stopReasons: Record<FinishReason, string> = {
  stop: "end_turn",
  "stop-sequence": "stop_sequence",
  length: "max_tokens",
  calls: "tool_use",
  refusal: "refusal",
  pause: "pause_turn",
};

type StopDetails = { type: "refusal"; category: null; explanation: string };

/** Why a message ended. A refusal in words is `refusal` here too, although other formats say `stop`. */
export function writeStopReason(
  { reason, stopSequence, explanation }: Ending,
  isRefused: boolean,
): { stop_reason: string; stop_sequence: string | null; stop_details: StopDetails | null } {
  const told = isRefused && reason === "stop" ? "refusal" : reason;
  return {
    stop_reason: stopReasons[told],
    stop_sequence: told === "stop-sequence" ? (stopSequence ?? null) : null,
    stop_details: explanation === undefined ? null : { type: "refusal", category: null, explanation },
  };
}
