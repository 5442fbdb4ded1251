import { Verdict, type CallState } from "#proto/authquota/v1/authquota_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import type { QuotaSession } from "./quota-session.ts";

const ridBytes = 16;
const mostAtOnce = 1_024;

/** Asks what became of calls, in their order; undefined where nothing was heard. */
export async function lookUpCalls(quota: QuotaSession, rids: readonly string[]): Promise<(CallState | undefined)[]> {
  if (!quota.hasLookupMany()) return Promise.all(rids.map((rid) => lookUpOne(quota, rid)));
  const starts = Array.from({ length: Math.ceil(rids.length / mostAtOnce) }, (_, index) => index * mostAtOnce);
  const chunks = starts.map((start) => lookUpMany(quota, rids.slice(start, start + mostAtOnce)));
  return (await Promise.all(chunks)).flat();
}

async function lookUpOne(quota: QuotaSession, rid: string): Promise<CallState | undefined> {
  const { verdict, state } = await quota.ask({ operation: { case: "lookup", value: { rid } } });
  return verdict === Verdict.OK ? state : undefined;
}

async function lookUpMany(quota: QuotaSession, rids: readonly string[]): Promise<(CallState | undefined)[]> {
  const packed = packRids(rids);
  // Not one bad id may keep all others from being asked about.
  if (!packed) return Promise.all(rids.map((rid) => lookUpOne(quota, rid)));
  const { verdict, states } = await quota.ask({ operation: { case: "lookupMany", value: { rids: packed } } });
  const areAll = verdict === Verdict.OK && states.length === rids.length;
  return rids.map((_, index) => (areAll ? (states[index] as CallState) : undefined));
}

/** The bytes of the ids, one behind the other; undefined when one is none that auth-quota takes. */
function packRids(rids: readonly string[]): Buffer | undefined {
  const packed = Buffer.allocUnsafe(rids.length * ridBytes);
  for (let index = 0; index < rids.length; index += 1) {
    const rid = rids[index] as string;
    if (ridTimeMs(rid) === undefined) return undefined;
    packed.write(rid.replaceAll("-", ""), index * ridBytes, ridBytes, "hex");
  }
  return packed;
}
