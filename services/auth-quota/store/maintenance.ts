import type { Database } from "./postgres.ts";

/** The row of auth_quota.maintenance; `changedAt` is null while nobody has ever closed the API. */
export type MaintenanceRow = { isMaintenance: boolean; changedAt: Date | null };

const columns = `is_maintenance as "isMaintenance", changed_at as "changedAt"`;

export async function readMaintenance(database: Database): Promise<MaintenanceRow> {
  return only(await database.query<MaintenanceRow>(`select ${columns} from auth_quota.maintenance`, []));
}

/** Sets whether the API is closed; where it is so already, it stays so since when it was. */
export async function writeMaintenance(database: Database, isMaintenance: boolean): Promise<MaintenanceRow> {
  const statement = `update auth_quota.maintenance
    set is_maintenance = $1, changed_at = case when is_maintenance = $1 then changed_at else now() end
    returning ${columns}`;
  return only(await database.query<MaintenanceRow>(statement, [isMaintenance]));
}

function only([row]: MaintenanceRow[]): MaintenanceRow {
  if (!row) throw new Error("auth_quota.maintenance has lost its row");
  return row;
}
