import type { MessageInitShape } from "@bufbuild/protobuf";
import { LineKind, type GetCallRequest, type GetCallResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { dayOfMs } from "../records/check.ts";
import { detached, requireId, requireUuidTimeMs } from "./check-request.ts";
import { toLedgerLine } from "./ledger-line.ts";
import { readCallLines, type LineRow } from "../store/lines.ts";
import { findDetachedDay } from "../store/partitions.ts";
import type { Pool } from "#shared/stores/postgres.ts";

/**
 * All lines of a call, in the order in which they were booked, and the account that was charged; of a call that is
 * settled by hand alone, the account of that. With an `account_id` only lines of this account, and a call of another
 * one is `not_found` as one without lines. `failed_precondition` when its charges are on a detached day.
 */
export async function getCall(
  pool: Pool,
  { rid, accountId }: GetCallRequest,
): Promise<MessageInitShape<typeof GetCallResponseSchema>> {
  if (accountId !== "") requireId("account_id", accountId);
  const day = dayOfMs(requireUuidTimeMs("rid", rid));
  const lines = await readCallLines(pool, { rid, day });
  const charge = lines.find(({ kind }) => kind <= LineKind.FINAL_ADJUSTMENT);
  if (!charge && (await findDetachedDay(pool, day, day)) !== undefined) throw detached(day);
  const owner = (charge ?? lines[0])?.accountId;
  if (owner === undefined || (accountId !== "" && owner !== accountId)) {
    throw new ServiceError("not_found", "nothing is booked for a call with this rid");
  }
  // Whoever may see only one account must not see what was booked about its call on another.
  const isShown = (line: LineRow): boolean => accountId === "" || line.accountId === accountId;
  return { accountId: owner, lines: lines.filter(isShown).map(toLedgerLine) };
}
