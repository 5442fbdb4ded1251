import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { ChangeShardsResponseSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { readCount } from "./arguments.ts";
import { asData, type Clients, type Run } from "./clients.ts";

const againMs = 2_000;
// Calls under way end, and are booked, within this; a video that is being submitted, too.
const restMs = 300_000;

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
