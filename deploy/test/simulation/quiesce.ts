import { isOver } from "./clock.ts";
import { movedPlaces } from "./key-database.ts";
import type { World } from "./world.ts";

/** The only unrest left is holds of calls that are long over. */
export const forgottenHolds = "forgotten holds";

/** What still has to happen before the world is at rest; undefined: nothing. */
export function findUnrest(world: World): string | undefined {
  for (const { name, relay, process, starts } of world.relays) {
    if (!relay || isOver(process)) return `${name} is not running`;
    if (process.state !== "running") return `${name} is paused`;
    if (relay.live.size > 0) return `${name} has ${relay.live.size} calls`;
    const { spool, quota, publisher } = relay.settling;
    if (spool.problem() !== undefined) return `${name}: ${spool.problem()}`;
    if (spool.openRecords() > 0) return `${name} (start ${starts}) has ${spool.openRecords()} records in its spool`;
    if (quota.queued() > 0) return `${name} has ${quota.queued()} operations unanswered`;
    if (publisher.waiting() > 0) return `${name} has ${publisher.waiting()} records unpublished`;
  }
  if (world.stream.pending() > 0) return `${world.stream.pending()} messages are not acknowledged`;
  for (const { accountId, version, pushedVersion } of world.ledger.accounts.values()) {
    if (version > pushedVersion) return `auth-quota was not told of ${accountId}`;
  }
  let open = 0;
  for (const { memory, prefix } of world.redises) {
    const outbox = Number(memory.execute(["ZCARD", `${prefix}:outbox`]));
    if (outbox > 0) return `${outbox} charges are in the outbox`;
    if (memory.execute(["HGET", `${prefix}:service`, "gate"]) !== null) return "the recovery lock is closed";
    open += Number(memory.execute(["HGET", `${prefix}:service`, "open"]) ?? 0);
  }
  // One that is moving waits for holds that only the sweep of forgotten ones ends, too.
  const moving = [...movedPlaces(world.ledger).values()].find(({ movingTo }) => movingTo !== null);
  if (open === 0) return moving && `${moving.accountId} is moving to shard ${moving.movingTo}`;
  return openCalls(world).every((rid) => isForgotten(world, rid)) ? forgottenHolds : `${open} holds are open`;
}

function openCalls({ redises }: World): string[] {
  return redises.flatMap(({ memory, prefix }) => {
    const sessions = [...memory.keys()].filter((key) => key.startsWith(`${prefix}:session:`));
    return sessions.flatMap((key) => memory.execute(["ZRANGE", key, "0", "-1"]) as string[]);
  });
}

/** Whether the relay is done with a call, so that nobody but the sweep of forgotten holds will end its hold. */
function isForgotten({ truths }: World, rid: string): boolean {
  const state = truths.get(rid)?.state;
  return state === "refused" || state === "released" || state === "settled";
}
