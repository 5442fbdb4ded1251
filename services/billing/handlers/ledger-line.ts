import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { LedgerLineSchema } from "#proto/billing/v1/billing_pb.ts";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { LineRow } from "../store/lines.ts";

/** A ledger line as callers see it. */
export function toLedgerLine(row: LineRow): MessageInitShape<typeof LedgerLineSchema> {
  return {
    lineId: row.lineId,
    accountId: row.accountId,
    kind: row.kind,
    amountNanos: row.amountNanos,
    rid: row.rid ?? "",
    reference: row.reference ?? "",
    note: row.note ?? "",
    bookedAt: timestampFromDate(row.bookedAt),
    ...(row.event && { usage: fromBinary(UsageRecordedSchema, row.event) }),
  };
}
