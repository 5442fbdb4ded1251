import { member } from "../dialect.ts";
import type { FinishReason } from "../reply.ts";

/** Why an answer ended (trap 12): its status tells a limit or a filter, its blocks whether it waits for tools. */
export function readReason(response: unknown, isIncomplete: boolean, hasCall: boolean): FinishReason {
  const reason = member(member(response, "incomplete_details"), "reason");
  if (reason === "content_filter") return "refusal";
  if (isIncomplete) return "length";
  return hasCall ? "calls" : "stop";
}

/** How a response ends: its status, the event that says so, and why it is not whole (trap 12). */
export type Ending = { status: "completed" | "incomplete"; details: { reason: string } | null };

/** A refusal that was said in words is a whole answer; one that cut the answer is not. */
export function endingOf(reason: FinishReason, hasRefusal: boolean): Ending {
  if (reason === "length") return { status: "incomplete", details: { reason: "max_output_tokens" } };
  if (reason === "refusal" && !hasRefusal) return { status: "incomplete", details: { reason: "content_filter" } };
  return { status: "completed", details: null };
}
