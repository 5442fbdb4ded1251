import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";

// What the codes of records mean, for people. A newer service may send codes that are not here.

const endCauses: Record<EndCause, string> = {
  [EndCause.UNSPECIFIED]: "It is not known how it ended.",
  [EndCause.COMPLETE]: "The answer is whole.",
  [EndCause.CLIENT_GONE]:
    "The caller closed the connection before the answer was whole; the provider was told to stop.",
  [EndCause.UPSTREAM_ERROR]: "The provider answered with an error.",
  [EndCause.UPSTREAM_CUT]: "The connection to the provider broke or could not be made.",
  [EndCause.UPSTREAM_TIMEOUT]: "The provider was silent for too long.",
  [EndCause.HOLD_EXHAUSTED]: "The answer grew beyond the money that could be held for it, so it was ended.",
  [EndCause.RELAY_LOST]: "The relay that served the call failed; charged is what it had noted last.",
  [EndCause.DRAINED]: "The relay was stopped before the answer was whole.",
};

/** The same in one or two words. */
const endCauseNames: Record<EndCause, string> = {
  [EndCause.UNSPECIFIED]: "unknown end",
  [EndCause.COMPLETE]: "complete",
  [EndCause.CLIENT_GONE]: "caller left",
  [EndCause.UPSTREAM_ERROR]: "provider error",
  [EndCause.UPSTREAM_CUT]: "connection lost",
  [EndCause.UPSTREAM_TIMEOUT]: "provider silent",
  [EndCause.HOLD_EXHAUSTED]: "balance used up",
  [EndCause.RELAY_LOST]: "relay failed",
  [EndCause.DRAINED]: "relay stopped",
};

const usageSources: Record<UsageSource, string> = {
  [UsageSource.UNSPECIFIED]: "It is not known where the counts come from.",
  [UsageSource.PROVIDER]: "The provider counted.",
  [UsageSource.ESTIMATED]: "Counted by the relay, from the request and from what was sent to the caller.",
  [UsageSource.PROVIDER_INPUT]: "The provider counted the input; the relay counted the output that it sent.",
  [UsageSource.NONE]: "Nothing was served, so nothing is counted.",
  [UsageSource.REQUEST]: "What was asked for: a video is charged for its length when a provider takes the task.",
};

/** Kinds of ledger lines. */
export const lineKinds: Record<LineKind, string> = {
  [LineKind.UNSPECIFIED]: "All",
  [LineKind.CHARGE]: "Charge",
  [LineKind.PROVISIONAL_CHARGE]: "Provisional charge",
  [LineKind.FINAL_ADJUSTMENT]: "Adjustment to the final charge",
  [LineKind.CREDIT]: "Payment",
  [LineKind.CORRECTION]: "Correction",
  [LineKind.REFUND]: "Refund",
};

const told = (words: Record<number, string>, code: number): string => words[code] ?? `Unknown (${code})`;

export const endCauseWords = (code: number): string => told(endCauses, code);
export const endCauseName = (code: number): string => told(endCauseNames, code);
export const usageSourceWords = (code: number): string => told(usageSources, code);
export const lineKindWords = (code: number): string => told(lineKinds, code);
