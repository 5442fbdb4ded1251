import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { serverStreamHandlers, type ServerStreamHandlers } from "#shared/grpc/stream.ts";
import { unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { correct, credit, refund, type ManualBookingDeps } from "./handlers/book-by-hand.ts";
import { answerCloseDay, listCloseLines } from "./handlers/day-close.ts";
import { exportLines } from "./handlers/export-lines.ts";
import { getBalance, getFunds } from "./handlers/funds.ts";
import { getCall } from "./handlers/get-call.ts";
import { compareInvoice, loadInvoice } from "./handlers/invoice.ts";
import { listBookedAccounts, listBookedKeys } from "./handlers/list-booked.ts";
import { listLedgerLines } from "./handlers/list-lines.ts";
import { listQuarantine } from "./handlers/list-quarantine.ts";
import { listVideoCharges } from "./handlers/list-video-charges.ts";
import { listLowBalances } from "./handlers/low-balances.ts";
import { findLostCharges } from "./handlers/find-lost-charges.ts";
import { getProgress } from "./intake/progress.ts";
import { queryBusiness } from "./handlers/query-business.ts";
import { queryUsage } from "./handlers/query-usage.ts";
import { getReport, reconcile } from "./reconcile/reconcile.ts";
import type { ReconcileDeps } from "./reconcile/checks.ts";
import { replay, type ReplayDeps } from "./handlers/replay.ts";
import { restoreDay, type RestoreDeps } from "./handlers/restore-day.ts";
import { retryQuarantine } from "./handlers/retry-quarantine.ts";
import { getStatement } from "./handlers/statement.ts";
import { redeemVoucher } from "./handlers/redeem-voucher.ts";
import { createVouchers, listVoucherBatches, listVouchers, voidVouchers } from "./handlers/vouchers.ts";
import { readEpoch } from "./store/ledger-epoch.ts";
import { asUnavailable, type Pool } from "#shared/stores/postgres.ts";

/**
 * What the gRPC calls need. `readPool` is for lists and sums, which may be long: people who read much must not take the
 * connections with which money is booked.
 */
export type AppDeps = ManualBookingDeps & ReplayDeps & ReconcileDeps & RestoreDeps & { readPool: Pool; log: Logger };

/** The calls of billing.v1.BillingService. A database that cannot be reached is `unavailable`. */
export function buildApp(deps: AppDeps): UntypedServiceImplementation {
  const { pool, readPool } = deps;
  const business = { pool: readPool, known: new Map() };
  const handlers: UnaryHandlers<typeof BillingService> = {
    credit: (request) => answer(credit(deps, request)),
    correct: (request) => answer(correct(deps, request)),
    getBalance: (request) => answer(getBalance(pool, request)),
    getFunds: (request) => answer(getFunds(pool, request)),
    listLedgerLines: (request) => answer(listLedgerLines({ ...deps, pool: readPool }, request)),
    queryUsage: (request) => answer(queryUsage(readPool, request)),
    listQuarantine: (request) => answer(listQuarantine(readPool, request)),
    refund: (request, identities) => answer(refund(deps, request, identities)),
    getStatement: (request) => answer(getStatement({ ...deps, pool: readPool }, request)),
    reconcile: (request) => answer(reconcile(deps, request)),
    getReport: (request) => answer(getReport(pool, request)),
    loadInvoice: (request) => answer(loadInvoice(pool, request)),
    compareInvoice: (request) => answer(compareInvoice(readPool, request)),
    getCall: (request) => answer(getCall(readPool, request)),
    listLowBalances: (request) => answer(listLowBalances(readPool, request)),
    retryQuarantine: (request) => answer(retryQuarantine(deps, request)),
    createVouchers: (request) => answer(createVouchers(pool, request)),
    redeemVoucher: (request) => answer(redeemVoucher(deps, request)),
    listVoucherBatches: (request) => answer(listVoucherBatches(readPool, request)),
    listVouchers: (request) => answer(listVouchers(readPool, request)),
    voidVouchers: (request) => answer(voidVouchers(pool, request)),
    getProgress: () => answer(tellProgress(deps)),
    findLostCharges: (request) => answer(findLostCharges({ ...deps, pool: readPool }, request)),
    listVideoCharges: (request) => answer(listVideoCharges({ ...deps, pool: readPool }, request)),
    listBookedAccounts: (request) => answer(listBookedAccounts(readPool, request)),
    listBookedKeys: (request) => answer(listBookedKeys(readPool, request)),
    queryBusiness: (request) => answer(queryBusiness(business, request)),
    closeDay: (request) => answer(answerCloseDay({ ...deps, pool: readPool }, request)),
  };
  const streams: ServerStreamHandlers<typeof BillingService> = {
    exportLines: (request) => answerAll(exportLines(readPool, request)),
    listCloseLines: (request) => answerAll(listCloseLines({ ...deps, pool: readPool }, request)),
    replay: (request, gone) => answerAll(replay(deps, request, gone)),
    restoreDay: (request, gone) => answerAll(restoreDay({ ...deps, pool: readPool }, request, gone)),
  };
  return {
    ...unaryHandlers(BillingService, handlers, deps.log),
    ...serverStreamHandlers(BillingService, streams, deps.log),
  };
}

async function tellProgress({ nats, pool }: Pick<AppDeps, "nats" | "pool">) {
  return { ...(await getProgress(nats)), ledgerEpoch: await readEpoch(pool) };
}

async function answer<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asUnavailable(error, "the ledger cannot be reached now");
  }
}

async function* answerAll<T>(responses: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* responses;
  } catch (error) {
    throw asUnavailable(error, "the ledger cannot be reached now");
  }
}
