import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { Callers } from "#shared/grpc/callers.ts";

const byPeople = ["console", "admin"] as const;

/** Who may call what here. */
export const callers: Callers<typeof BillingService> = {
  credit: byPeople,
  correct: byPeople,
  getBalance: byPeople,
  getFunds: ["auth-quota", ...byPeople],
  listLedgerLines: ["video-task", ...byPeople],
  queryUsage: byPeople,
  listQuarantine: byPeople,
  refund: ["video-task", ...byPeople],
  exportLines: byPeople,
  getStatement: byPeople,
  replay: byPeople,
  reconcile: byPeople,
  getReport: byPeople,
  loadInvoice: byPeople,
  compareInvoice: byPeople,
  getCall: byPeople,
  listLowBalances: byPeople,
  retryQuarantine: byPeople,
  createVouchers: byPeople,
  redeemVoucher: ["console"],
  listVoucherBatches: byPeople,
  listVouchers: byPeople,
  voidVouchers: byPeople,
  getProgress: ["auth-quota", ...byPeople],
  findLostCharges: ["auth-quota"],
  listVideoCharges: ["video-task"],
  listBookedAccounts: ["admin"],
  listBookedKeys: ["admin"],
  closeDay: byPeople,
  listCloseLines: byPeople,
  restoreDay: ["admin"],
  queryBusiness: ["console"],
};
