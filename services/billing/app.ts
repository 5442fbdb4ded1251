import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { unaryHandlers, type UnaryHandlers } from "#shared/grpc.ts";
import type { Logger } from "#shared/log.ts";
import { correct, credit, type ByHand } from "./book-by-hand.ts";
import { getBalance, getFunds } from "./funds.ts";
import { listLedgerLines } from "./list-lines.ts";
import { listQuarantine } from "./list-quarantine.ts";
import { queryUsage } from "./query-usage.ts";
import { asUnavailable } from "./store/pool.ts";

/** What the gRPC calls need. */
export type AppParts = ByHand & { log: Logger };

/** The calls of billing.v1.BillingService. A database that cannot be reached is `unavailable`. */
export function buildApp(parts: AppParts): UntypedServiceImplementation {
  const { pool } = parts;
  const handlers: UnaryHandlers<typeof BillingService> = {
    credit: (request) => answer(credit(parts, request)),
    correct: (request) => answer(correct(parts, request)),
    getBalance: (request) => answer(getBalance(pool, request)),
    getFunds: (request) => answer(getFunds(pool, request)),
    listLedgerLines: (request) => answer(listLedgerLines(pool, request)),
    queryUsage: (request) => answer(queryUsage(pool, request)),
    listQuarantine: (request) => answer(listQuarantine(pool, request)),
  };
  return unaryHandlers(BillingService, handlers, parts.log);
}

async function answer<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asUnavailable(error);
  }
}
