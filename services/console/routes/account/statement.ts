import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { GetStatementResponse } from "#proto/billing/v1/billing_pb.ts";
import type { Deps } from "../../deps.ts";
import type { Span } from "../../html/days.ts";
import { isArchived } from "../../html/ledger-lines.ts";
import type { AccountRequest } from "../../html/route.ts";

/** Undefined when lines of the time are in the archive. */
export async function readStatement(
  { patientBilling }: Deps,
  { accountId }: AccountRequest,
  { from, until }: Span,
): Promise<GetStatementResponse | undefined> {
  try {
    const span = { from: timestampFromDate(from), until: timestampFromDate(until) };
    return await patientBilling.getStatement({ accountId, ...span });
  } catch (error) {
    if (isArchived(error)) return undefined;
    throw error;
  }
}
