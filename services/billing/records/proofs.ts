import { isProven, readProofKeys } from "#shared/money/hold-proof.ts";
import type { UsageRecord } from "./usage-record.ts";

/** Whether an event is of a hold that auth-quota has granted, with just this content. */
export type IsProven = (event: UsageRecord, bytes: Uint8Array) => boolean;

/** Tells how events are to be checked that were received at a time, in milliseconds since 1970. */
export type Proofs = (receivedAtMs: number) => IsProven;

/** For an event that a person has looked at, or that is only compared with what is booked. */
export const isTrusted: IsProven = () => true;

/** Reads HOLD_PROOF_KEYS and HOLD_PROOF_FROM. Throws an Error that says what is wrong with them. */
export function createProofs(keysText: string, fromText: string): Proofs {
  const keys = readProofKeys(keysText);
  const fromMs = fromText === "" ? -Infinity : Date.parse(fromText);
  if (Number.isNaN(fromMs)) throw new Error("HOLD_PROOF_FROM must be a time such as 2026-01-31T12:00:00Z, or empty");
  const check: IsProven = (event, bytes) => isProven(keys, event, bytes);
  return (receivedAtMs) => (receivedAtMs < fromMs ? isTrusted : check);
}
