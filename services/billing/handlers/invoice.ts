import { dayMs } from "#shared/process/clock.ts";
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type {
  CompareInvoiceRequest,
  CompareInvoiceResponseSchema,
  InvoiceRow,
  LoadInvoiceRequest,
  LoadInvoiceResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { type Usage, UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { dayOfMs } from "../records/check.ts";
import { badRequest, detached, requireDay, requireFewDays, requireText } from "./check-request.ts";
import { toUsage } from "./query-usage.ts";
import { compareInvoice as readComparison, putInvoice, type ComparedRow, type CostRow } from "../store/invoice.ts";
import { findDetachedDay } from "../store/partitions.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const maxRows = 10_000;
const maxComparedRows = 50_000;
const nameLength = { min: 1, max: 200 };

/**
 * Takes over what a provider says it has billed, all rows or none. A row of the same upstream, day and model is
 * replaced, whatever invoice it came with; within one request a day and model may come once. Costs may be negative: a
 * provider's credit.
 */
export async function loadInvoice(
  pool: Pool,
  { upstream, invoiceId, rows }: LoadInvoiceRequest,
): Promise<MessageInitShape<typeof LoadInvoiceResponseSchema>> {
  if (rows.length === 0 || rows.length > maxRows) throw badRequest(`rows must be 1 to ${maxRows}`);
  const read = rows.map(readRow);
  const places = new Set<string>();
  for (const { day, model } of read) {
    const place = `${day} ${model}`;
    if (places.has(place)) throw badRequest(`rows: ${place} comes twice`);
    places.add(place);
  }
  return await putInvoice(pool, {
    upstream: requireText("upstream", upstream, nameLength),
    invoiceId: requireText("invoice_id", invoiceId, nameLength),
    rows: read,
  });
}

function readRow({ day, model, costNanos, usage }: InvoiceRow): CostRow {
  requireDay("rows: day", day);
  requireText("rows: model", model, nameLength);
  const negative = usageBuckets.find((bucket) => (usage?.[bucket] ?? 0n) < 0n);
  if (negative) throw badRequest(`rows: ${day} ${model} has negative units`);
  return { day, model, costNanos, usage: toBinary(UsageSchema, usage ?? create(UsageSchema)) };
}

/**
 * Holds what a provider has billed against the ledger, by ledger day (that of a call's beginning) and by the model that
 * the provider says it ran; a day and model that only one side knows has 0 on the other. At most 400 days and 50,000
 * rows; `failed_precondition` when a day has left the ledger.
 */
export async function compareInvoice(
  pool: Pool,
  { upstream, fromDay, untilDay }: CompareInvoiceRequest,
): Promise<MessageInitShape<typeof CompareInvoiceResponseSchema>> {
  requireText("upstream", upstream, nameLength);
  requireFewDays({ fromDay, untilDay });
  const missing = await findDetachedDay(pool, fromDay, dayOfMs(Date.parse(untilDay) - dayMs));
  if (missing !== undefined) throw detached(missing);
  const rows = await readComparison(pool, { upstream, fromDay, untilDay, limit: maxComparedRows + 1 });
  if (rows.length > maxComparedRows) {
    throw new ServiceError("failed_precondition", `more than ${maxComparedRows} rows: ask for fewer days`);
  }
  return { rows: rows.map(toDifference) };
}

function toDifference({ billedUsage, units, ...row }: ComparedRow) {
  return { ...row, billedUsage: readUsage(billedUsage), bookedUsage: toUsage(units) };
}

function readUsage(bytes: Buffer | null): Usage {
  return bytes ? fromBinary(UsageSchema, bytes) : create(UsageSchema);
}
