import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";

/** What the contract calls the operations; "none" for one that is not known here. */
export type OperationName =
  | "none"
  | "authorize"
  | "reserve"
  | "extend"
  | "checkpoint"
  | "settle"
  | "release"
  | "lookup"
  | "endSession"
  | "restore"
  | "lookupMany"
  | "lease"
  | "draw"
  | "lookupLeased";

const names = new Map<Verdict, string>(Object.entries(Verdict).map(([name, verdict]) => [verdict, name.toLowerCase()]));

/** A verdict as metrics and traces name it: ip_rate. */
export const verdictName = (verdict: Verdict): string => names.get(verdict) ?? "unknown";
