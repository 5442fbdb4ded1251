import { hash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  LineKind,
  type CorrectRequest,
  type CorrectResponseSchema,
  type CreditRequest,
  type CreditResponseSchema,
  type RefundRequest,
  type RefundResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import { formatUsd, maxAccountNanos } from "#shared/money/money.ts";
import { dayOfMs } from "../records/check.ts";
import { badRequest, requireId, requireText, requireUuidTimeMs } from "./check-request.ts";
import { toLedgerLine } from "./ledger-line.ts";
import { isDayMissing, type LedgerDays } from "../store/days.ts";
import type { AccountRow } from "../store/funds.ts";
import {
  bookManualLine,
  type Decision,
  type ManualContext,
  type ManualLine,
  type ManualResult,
} from "../store/manual.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import type { BalancePusher } from "../intake/push-balances.ts";

/** What booking by hand needs. */
export type ManualBookingDeps = { pool: Pool; days: LedgerDays; pusher: BalancePusher; clock: Clock };

const referenceLength = { min: 1, max: 200 };
const noteLength = 500;

/** What the payment_id of a voucher's credit begins with. No other payment may, or the voucher would seem used up. */
export const voucherPrefix = "voucher:";

/**
 * Puts money into an account, once per payment_id: the same request again gives the same line, another one with the
 * same payment_id is `already_exists`. A credit that would lift the balance above maxAccountNanos is
 * `failed_precondition`.
 */
export async function credit(
  deps: ManualBookingDeps,
  request: CreditRequest,
): Promise<MessageInitShape<typeof CreditResponseSchema>> {
  if (request.amountNanos <= 0n) throw badRequest("amount_nanos must be more than 0");
  const note = requireText("note", request.note, { min: 0, max: noteLength });
  const reference = requireText("payment_id", request.paymentId, referenceLength);
  if (reference.startsWith(voucherPrefix)) throw badRequest(`payment_id must not begin with ${voucherPrefix}`);
  const { accountId, amountNanos } = request;
  const lineRequest = { kind: LineKind.CREDIT, accountId, amountNanos, reference, note, rid: undefined } as const;
  return await bookDecided(deps, lineRequest, ({ account }) => withinRange(account, amountNanos));
}

/**
 * Books a correction of either sign, once per correction_id. It may take the balance below 0, but not further from 0
 * than maxAccountNanos.
 */
export async function correct(
  deps: ManualBookingDeps,
  request: CorrectRequest,
): Promise<MessageInitShape<typeof CorrectResponseSchema>> {
  if (request.amountNanos === 0n) throw badRequest("amount_nanos must not be 0");
  const note = requireText("reason", request.reason, { min: 1, max: noteLength });
  const reference = requireText("correction_id", request.correctionId, referenceLength);
  if (request.rid !== "") requireUuidTimeMs("rid", request.rid);
  const { accountId, amountNanos } = request;
  const rid = request.rid || undefined;
  const lineRequest = { kind: LineKind.CORRECTION, accountId, amountNanos, reference, note, rid } as const;
  return await bookDecided(deps, lineRequest, ({ account }) => withinRange(account, amountNanos));
}

/**
 * Gives back what a call was charged and was not given back yet, or a part of it, once per refund_id; an amount of 0 is
 * all that is left. More than is left, or a call that the account was never charged for, is `failed_precondition`.
 * video-task gives back charges of videos only, each once, and once more what is left of one whose task was lost.
 */
export async function refund(
  deps: ManualBookingDeps,
  request: RefundRequest,
  identities: readonly Identity[] = [],
): Promise<MessageInitShape<typeof RefundResponseSchema>> {
  const { accountId, amountNanos, rid } = request;
  if (amountNanos < 0n) throw badRequest("amount_nanos must not be negative");
  const note = requireText("reason", request.reason, { min: 1, max: noteLength });
  const reference = requireText("refund_id", request.refundId, referenceLength);
  requireUuidTimeMs("rid", rid);
  const lineRequest = { kind: LineKind.REFUND, accountId, amountNanos, reference, note, rid } as const;
  const isOfTask = identities.length > 0 && identities.every((identity) => identity === "video-task");
  if (isOfTask && !videoRefunds.some((name) => reference === `${name}:${rid}`)) {
    throw badRequest("refund_id must be that of the call's video");
  }
  return await bookDecided(deps, lineRequest, (found) =>
    isOfTask && found.charge?.endpoint !== videosPath ? notVideo : decideRefund(found, amountNanos),
  );
}

/** The endpoint of videos, as events name it. */
export const videosPath = "/v1/videos";
// What failed or was shorter, and what is left of one whose task was lost.
const videoRefunds = ["video", "video-lost"];
const notVideo: Decision = { reason: "this call is no video" };

// Money invariant I10. What people have booked about the call as corrections is beside this: only charges come back.
function decideRefund({ account, charge }: ManualContext, askedNanos: bigint): Decision {
  if (!charge) return { reason: "this account was not charged for a call with this rid" };
  const { chargedNanos, refundedNanos } = charge;
  const leftNanos = chargedNanos - refundedNanos;
  const [charged, refunded] = [formatUsd(chargedNanos), formatUsd(refundedNanos)];
  const words = `the call was charged ${charged} USD, of which ${refunded} USD are refunded`;
  if (leftNanos <= 0n) return { reason: `nothing is left to refund: ${words}` };
  if (askedNanos > leftNanos) return { reason: `more than what is left to refund: ${words}` };
  return withinRange(account, askedNanos || leftNanos);
}

/** A line by hand before it is known when it is booked. */
export type LineRequest = Omit<ManualLine, "contentHash" | "day" | "bookedAtMs">;

const bookDecided = (deps: ManualBookingDeps, lineRequest: LineRequest, decide: (found: ManualContext) => Decision) =>
  bookByHand(deps, lineRequest, (line) => bookManualLine(deps.pool, line, decide));

/** Books by hand what `post` puts into the ledger, and tells auth-quota. */
export async function bookByHand(
  { days, pusher, clock }: ManualBookingDeps,
  lineRequest: LineRequest,
  post: (line: ManualLine) => Promise<ManualResult>,
) {
  requireId("account_id", lineRequest.accountId);
  const bookedAtMs = clock.nowMs();
  const day = dayOfMs(bookedAtMs);
  const line = { ...lineRequest, contentHash: contentHashOf(lineRequest), bookedAtMs, day };
  await days.ensure([day]);
  const result = await post(line).catch(async (error: unknown) => {
    if (!isDayMissing(error)) throw error;
    days.forget();
    await days.ensure([day]);
    return post(line);
  });
  if (result.outcome === "other-content") {
    const words = `${JSON.stringify(lineRequest.reference)} was booked before with other content`;
    throw new ServiceError("already_exists", words);
  }
  if (result.outcome === "refused") throw new ServiceError("failed_precondition", result.reason);
  // Best effort: the line is booked, and what auth-quota missed is pushed again by the periodic repair.
  await pusher.push({ accounts: [result.account], keys: result.keys, calls: [] });
  return { line: toLedgerLine(result.line), balanceNanos: result.account.balanceNanos };
}

/** Books an amount unless the balance would then be further from 0 than an account may be. */
export function withinRange({ balanceNanos }: AccountRow, amountNanos: bigint): Decision {
  const afterwards = balanceNanos + amountNanos;
  const isTooMuch = amountNanos > 0n ? afterwards > maxAccountNanos : afterwards < -maxAccountNanos;
  if (!isTooMuch) return { amountNanos };
  const [balance, most] = [formatUsd(balanceNanos), formatUsd(maxAccountNanos)];
  return { reason: `the balance of ${balance} USD would leave the range of ${most} USD` };
}

function contentHashOf({ kind, accountId, amountNanos, reference, note, rid }: LineRequest): Buffer {
  const content = JSON.stringify([kind, accountId, String(amountNanos), reference, note, rid ?? null]);
  return hash("sha256", content, "buffer");
}
