import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { ChangeShardsResponseSchema, MoveAccountResponseSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { readCount } from "./arguments.ts";
import { asData, type Clients, type Run } from "./clients.ts";

const againMs = 2_000;
// Calls under way end, and are booked, within this; a video that is being submitted, too.
const restMs = 300_000;
// Somebody waits for the answer, and the move does not depend on it.
const moveMs = 60_000;

export function addShardsCommand(program: Command, run: Run): void {
  program
    .command("shards")
    .description("change the number of shards of the hot money; closes the API and waits until nothing is held")
    .argument("<number>", "how many, 1 to 64", readCount)
    .action((shards: number) =>
      run(async (clients) => {
        const changed = await changeShards(clients, shards);
        return {
          text: `${changed.shards}`,
          data: asData(ChangeShardsResponseSchema, changed),
          hint: `Start auth-quota with REDIS_SHARDS=${shards}, then open the API again.`,
        };
      }),
    );
}

export function addMoveAccountCommand(program: Command, run: Run): void {
  program
    .command("move-account")
    .description("move an account to another shard of the hot money; its new calls wait until the others have ended")
    .argument("<account>", "the account")
    .argument("<shard>", "from 0 on; the one where it is now gives a move up", readCount)
    .action((accountId: string, shard: number) =>
      run(async (clients) => {
        const moved = await moveAccount(clients, accountId, shard);
        const left = `${moved.openHolds} calls are under way, ${moved.unpostedCalls} charges are not booked yet`;
        return {
          text: moved.isMoving ? `still in shard ${moved.shard}: ${left}` : `in shard ${moved.shard}`,
          data: asData(MoveAccountResponseSchema, moved),
          ...(moved.isMoving && { hint: "It goes on by itself. The same command tells how far it is." }),
        };
      }),
    );
}

async function moveAccount({ authQuota }: Clients, accountId: string, shard: number) {
  for (const untilMs = performance.now() + moveMs; ; await pause(againMs)) {
    const moved = await authQuota.moveAccount({ accountId, shard });
    if (!moved.isMoving || performance.now() >= untilMs) return moved;
  }
}

async function changeShards({ authQuota }: Clients, shards: number) {
  const { isMaintenance: wasClosed } = await authQuota.getMaintenance({});
  await authQuota.setMaintenance({ isMaintenance: true });
  for (const untilMs = performance.now() + restMs; ; await pause(againMs)) {
    try {
      return await authQuota.changeShards({ shards });
    } catch (error) {
      const isUnrest = error instanceof ServiceError && error.code === "failed_precondition";
      if (isUnrest && performance.now() < untilMs) continue;
      if (!wasClosed) await authQuota.setMaintenance({ isMaintenance: false });
      throw error;
    }
  }
}
