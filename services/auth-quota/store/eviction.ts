/**
 * `evicts`: any key may go when the memory is full. `evicted`: some are gone. Policies for keys that expire
 * (`volatile-…`) are none of both: such are marks of calls that are over, and rates of addresses.
 */
export type Eviction = "none" | "evicts" | "evicted";

/** Reads what Redis says of its memory (INFO memory, stats). A server that does not tell evicts nothing. */
export function evictionOf(info: string): Eviction {
  const valueOf = (name: string): string | undefined => new RegExp(`^${name}:(\\S+)`, "m").exec(info)?.[1];
  const isAny = valueOf("maxmemory_policy")?.startsWith("allkeys-") === true;
  if (!isAny || valueOf("maxmemory") === "0") return "none";
  return valueOf("evicted_keys") === "0" ? "evicts" : "evicted";
}
