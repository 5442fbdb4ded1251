import { Verdict, type CallState } from "#proto/authquota/v1/authquota_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import type { LeasePayer } from "./spool.ts";
import type { QuotaSession } from "./quota-session.ts";

const ridBytes = 16;
const hashBytes = 4;
const mostAtOnce = 1_024;
/** In place of a state: it could not be asked. */
const unasked = 255;

/** A call that is asked about; without its account's hash every shard of the hot money is. */
export type AskedCall = {
  rid: string;
  accountHash?: number | undefined;
  /** Of a call that ended within a lease: whose key that was. */
  leasedTo?: LeasePayer | undefined;
};

/** Asks what became of calls, in their order; undefined where nothing was heard. */
export async function lookUpCalls(
  quota: QuotaSession,
  calls: readonly AskedCall[],
): Promise<(CallState | undefined)[]> {
  const states = new Map<string, CallState | undefined>();
  const ask = async (chunk: readonly AskedCall[], found: Promise<States>): Promise<void> => {
    for (const [index, state] of (await found).entries()) states.set(chunk[index]?.rid ?? "", state);
  };
  const single = calls.filter(({ leasedTo }) => leasedTo === undefined);
  const known = single.filter(({ accountHash }) => accountHash !== undefined);
  const others = single.filter(({ accountHash }) => accountHash === undefined);
  const leased = Map.groupBy(calls, ({ leasedTo }) => leasedTo?.keyId);
  leased.delete(undefined);
  const chunks = quota.hasLookupMany() ? [...chunksOf(known), ...chunksOf(others)] : [];
  const ones = quota.hasLookupMany() ? [] : single;
  await Promise.all([
    ...chunks.map((chunk) => ask(chunk, lookUpMany(quota, chunk))),
    ...ones.map((call) =>
      ask(
        [call],
        lookUpOne(quota, call).then((state) => [state]),
      ),
    ),
    ...[...leased.values()].flatMap(chunksOf).map((chunk) => ask(chunk, lookUpLeased(quota, chunk))),
  ]);
  return calls.map(({ rid }) => states.get(rid));
}

type States = (CallState | undefined)[];

function chunksOf(calls: readonly AskedCall[]): AskedCall[][] {
  const starts = Array.from({ length: Math.ceil(calls.length / mostAtOnce) }, (_, index) => index * mostAtOnce);
  return starts.map((start) => calls.slice(start, start + mostAtOnce));
}

async function lookUpOne(quota: QuotaSession, { rid }: AskedCall): Promise<CallState | undefined> {
  const { verdict, state } = await quota.ask({ operation: { case: "lookup", value: { rid } } });
  return verdict === Verdict.OK ? state : undefined;
}

async function lookUpMany(quota: QuotaSession, calls: readonly AskedCall[]): Promise<(CallState | undefined)[]> {
  const rids = packRids(calls);
  // Not one bad id may keep all others from being asked about.
  if (!rids) return Promise.all(calls.map((call) => lookUpOne(quota, call)));
  const value = { rids, accountHashes: packHashes(calls) };
  const { verdict, states } = await quota.ask({ operation: { case: "lookupMany", value } });
  return readStates(verdict === Verdict.OK && states.length === calls.length, states, calls);
}

/** The same of calls of one key that ended within leases. */
async function lookUpLeased(quota: QuotaSession, calls: readonly AskedCall[]): Promise<States> {
  const rids = packRids(calls);
  const [first] = calls;
  if (!rids || !first?.leasedTo) return [];
  const { accountId, keyId } = first.leasedTo;
  const { verdict, states } = await quota.ask({
    operation: { case: "lookupLeased", value: { rids, accountId, keyId } },
  });
  return readStates(verdict === Verdict.OK && states.length === calls.length, states, calls);
}

const readStates = (areAll: boolean, states: Uint8Array, calls: readonly AskedCall[]): States =>
  calls.map((_, index) => {
    const state = states[index];
    return areAll && state !== unasked ? (state as CallState) : undefined;
  });

/** The bytes of the ids, one behind the other; undefined when one is none that auth-quota takes. */
function packRids(calls: readonly AskedCall[]): Buffer | undefined {
  const packed = Buffer.allocUnsafe(calls.length * ridBytes);
  for (const [index, { rid }] of calls.entries()) {
    if (ridTimeMs(rid) === undefined) return undefined;
    packed.write(rid.replaceAll("-", ""), index * ridBytes, ridBytes, "hex");
  }
  return packed;
}

/** Those of the accounts, in the same order; empty where they are not known. */
function packHashes(calls: readonly AskedCall[]): Buffer {
  if (calls[0]?.accountHash === undefined) return Buffer.alloc(0);
  const packed = Buffer.allocUnsafe(calls.length * hashBytes);
  for (const [index, { accountHash = 0 }] of calls.entries()) packed.writeUInt32BE(accountHash, index * hashBytes);
  return packed;
}
