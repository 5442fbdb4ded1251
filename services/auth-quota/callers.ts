import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { Callers } from "#shared/grpc/callers.ts";

const byPeople = ["console", "admin"] as const;

/** Who may call what here. The operations of calls (reserve, extend, checkpoint, settle, look up) are in `session`. */
export const callers: Callers<typeof AuthQuotaService> = {
  session: ["relay"],
  post: ["billing"],
  listUnposted: ["billing"],
  auditAccounts: ["billing"],
  getHolds: byPeople,
  createAccount: byPeople,
  updateAccount: byPeople,
  getAccounts: byPeople,
  listAccounts: ["billing", ...byPeople],
  createKey: byPeople,
  updateKey: byPeople,
  deleteKey: byPeople,
  listKeys: byPeople,
  getKeys: byPeople,
  findKeys: byPeople,
  getMaintenance: byPeople,
  setMaintenance: byPeople,
  changeShards: ["admin"],
  moveAccount: ["admin"],
  keepCatalog: ["relay"],
  getKeptCatalog: ["relay", ...byPeople],
  listCatalogs: byPeople,
  getCatalog: byPeople,
  applyCatalog: byPeople,
  getAppliedCatalog: ["relay", "video-task"],
  reportRefusals: ["relay"],
  findLostCharges: ["relay"],
  listRefusals: byPeople,
  listMostRefused: byPeople,
};
