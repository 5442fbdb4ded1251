import { startOneMoreRelay } from "../tools/local/more-relays.ts";
import type { Cores } from "./cores.ts";
import type { RelayTarget } from "./relay-target.ts";
import type { Target } from "./targets.ts";

/** Starts one more relay on the stack of another, which admits calls of busy keys within leases. */
export async function startLeased(
  { environment, headers }: RelayTarget,
  cores: Cores,
): Promise<Target & AsyncDisposable> {
  const spool = { SPOOL_DIR: `${environment["SPOOL_DIR"]}-leased` };
  const relay = await startOneMoreRelay({
    name: "leased relay",
    environment: { ...environment, ...spool, LEASE_FROM_CALLS_PER_SECOND: "10" },
    stopGraceMs: 20_000,
  });
  cores.moveToMeasured(relay.pid);
  return {
    name: "leased",
    port: Number(new URL(relay.url).port),
    pid: relay.pid,
    headers,
    isVerbatim: true,
    [Symbol.asyncDispose]: () => relay[Symbol.asyncDispose](),
  };
}
