import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  LineKind,
  VoucherState,
  type RedeemVoucherRequest,
  type RedeemVoucherResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { bookByHand, voucherPrefix, withinRange, type ManualBookingDeps } from "./book-by-hand.ts";
import { requireId } from "./check-request.ts";
import { findVoucher, redeemOnce, type FoundVoucher } from "../store/vouchers.ts";
import { requireCodeHash } from "./vouchers.ts";

/**
 * Puts a voucher's money into an account, once: of any number of redeemers one wins. The winner gets the same line
 * again, others `failed_precondition`, as does everyone for one that is expired. A code that is unknown or void is
 * `not_found`.
 */
export async function redeemVoucher(
  deps: ManualBookingDeps,
  { accountId, codeHash }: RedeemVoucherRequest,
): Promise<MessageInitShape<typeof RedeemVoucherResponseSchema>> {
  requireId("account_id", accountId);
  requireCodeHash("code_hash", codeHash);
  const check = (found: FoundVoucher | undefined) => requireOpenFor(accountId, found, deps.clock.nowMs());
  // Without locks: guesses must not cost more than a look, nor make accounts. What counts is the look under the locks.
  const { batchId, number, amountNanos } = check(await findVoucher(deps.pool, codeHash));
  const reference = `${voucherPrefix}${batchId}:${number}`;
  const lineRequest = {
    kind: LineKind.CREDIT,
    accountId,
    amountNanos,
    reference,
    note: "voucher",
    rid: undefined,
  } as const;
  return await bookByHand(deps, lineRequest, async (line) => {
    const result = await redeemOnce(deps.pool, line, codeHash, ({ account, voucher }) => {
      check(voucher);
      return withinRange(account, amountNanos);
    });
    if (result.outcome === "other-content") throw usedUp();
    return result;
  });
}

// An account that has redeemed a voucher may ask again at any time: it was not told, perhaps.
function requireOpenFor(accountId: string, voucher: FoundVoucher | undefined, nowMs: number): FoundVoucher {
  if (!voucher || voucher.state === VoucherState.VOID) throw new ServiceError("not_found", "no voucher has this code");
  if (voucher.state === VoucherState.REDEEMED) {
    if (voucher.accountId !== accountId) throw usedUp();
    return voucher;
  }
  if (voucher.expiresAt && voucher.expiresAt.getTime() <= nowMs) {
    throw new ServiceError("failed_precondition", "this voucher is expired");
  }
  return voucher;
}

function usedUp(): ServiceError {
  return new ServiceError("failed_precondition", "this voucher is used up");
}
