import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { readMaintenance, writeMaintenance, type MaintenanceRow } from "../store/maintenance.ts";
import type { Database } from "../store/postgres.ts";
import { toTimestamp } from "./validate.ts";

type MaintenanceHandlers = Pick<UnaryHandlers<typeof AuthQuotaService>, "getMaintenance" | "setMaintenance">;

/** What this replica tells relays of the operators' switch. */
export type Maintenance = {
  /** As last read, however long ago; undefined: it was never read. */
  current: () => boolean | undefined;
  /** Reads it again. Never rejects: what was read last stays in force. */
  look: () => Promise<void>;
  handlers: MaintenanceHandlers;
};

const lookMs = 1_000;

/** Looks at once and every second. */
export function followMaintenance(database: Database, log: Logger): Maintenance & AsyncDisposable {
  const maintenance = createMaintenance(database, log);
  void maintenance.look();
  return { ...maintenance, ...every(lookMs, maintenance.look, log) };
}

export function createMaintenance(database: Database, log: Logger): Maintenance {
  let current: boolean | undefined;
  let isFailing = false;
  let begun = 0;
  let taken = 0;
  const look = async (): Promise<void> => {
    const turn = (begun += 1);
    try {
      const { isMaintenance } = await readMaintenance(database);
      // One that was overtaken by a later look may have seen what was before a change.
      if (turn < taken) return;
      taken = turn;
      if (isMaintenance !== (current ?? false)) log.info({ isMaintenance }, "maintenance switch changed");
      current = isMaintenance;
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn({ err: error, isMaintenance: current }, "failed to read the maintenance switch");
      isFailing = true;
    }
  };
  return {
    current: () => current,
    look,
    handlers: {
      getMaintenance: async () => toAnswer(await readMaintenance(database)),
      setMaintenance: async ({ isMaintenance }) => {
        const row = await writeMaintenance(database, isMaintenance);
        await look();
        return toAnswer(row);
      },
    },
  };
}

function toAnswer({ isMaintenance, changedAt }: MaintenanceRow): { isMaintenance: boolean; changedAt?: Timestamp } {
  return { isMaintenance, ...(changedAt && { changedAt: toTimestamp(changedAt) }) };
}
