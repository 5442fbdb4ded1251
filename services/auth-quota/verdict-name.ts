import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";

const names = new Map<Verdict, string>(Object.entries(Verdict).map(([name, verdict]) => [verdict, name.toLowerCase()]));

/** A verdict as metrics and traces name it: ip_rate. */
export const verdictName = (verdict: Verdict): string => names.get(verdict) ?? "unknown";
