import { hash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  CreateVouchersRequest,
  CreateVouchersResponseSchema,
  ListVoucherBatchesRequest,
  ListVoucherBatchesResponseSchema,
  ListVouchersRequest,
  ListVouchersResponseSchema,
  VoidVouchersRequest,
  VoidVouchersResponseSchema,
  VoucherBatchSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { badRequest, requireId, requireLimit, requireText, requireTimeMs } from "./check-request.ts";
import {
  insertBatch,
  readBatch,
  readBatches,
  readVouchers,
  voidOpenVouchers,
  type BatchRow,
  type NewBatch,
} from "../store/vouchers.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const maxVouchers = 1_000;
const noteLength = { min: 0, max: 500 };
const hashBytes = 32;

/** Checks the SHA-256 of a voucher's code; `name` is the field. */
export function requireCodeHash(name: string, codeHash: Uint8Array): void {
  if (codeHash.length !== hashBytes) throw badRequest(`${name} must have ${hashBytes} bytes`);
}

/**
 * Makes the vouchers of a batch, all or none, once per batch_id: the same request again gives the batch as it stands,
 * another one is `already_exists`, as is a code that another batch has.
 */
export async function createVouchers(
  pool: Pool,
  request: CreateVouchersRequest,
): Promise<MessageInitShape<typeof CreateVouchersResponseSchema>> {
  const batch = requireBatch(request);
  const outcome = await insertBatch(pool, batch);
  if (outcome === "other-content") {
    throw new ServiceError("already_exists", `the batch ${batch.batchId} was made before with other content`);
  }
  if (outcome === "code-known") throw new ServiceError("already_exists", "another batch has one of these codes");
  return { batch: await requireKnownBatch(pool, batch.batchId) };
}

function requireBatch({ batchId, amountNanos, codeHashes, expiresAt, note }: CreateVouchersRequest): NewBatch {
  if (amountNanos <= 0n) throw badRequest("amount_nanos must be more than 0");
  if (amountNanos > maxAccountNanos) throw badRequest(`amount_nanos must be at most ${maxAccountNanos}`);
  if (codeHashes.length === 0 || codeHashes.length > maxVouchers) {
    throw badRequest(`code_hashes must be 1 to ${maxVouchers}`);
  }
  for (const codeHash of codeHashes) requireCodeHash("code_hashes", codeHash);
  const codes = codeHashes.map((codeHash) => Buffer.from(codeHash).toString("hex"));
  if (new Set(codes).size < codes.length) throw badRequest("code_hashes: one comes twice");
  const expiresAtMs = expiresAt && requireTimeMs("expires_at", expiresAt);
  const content = JSON.stringify([String(amountNanos), codes, expiresAtMs ?? null, note]);
  return {
    batchId: requireId("batch_id", batchId),
    contentHash: hash("sha256", content, "buffer"),
    amountNanos,
    codeHashes,
    expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs),
    note: requireText("note", note, noteLength),
  };
}

/** A page of batches, newest first; the last batch_id of a page leads to the next. */
export async function listVoucherBatches(
  pool: Pool,
  { beforeBatchId, limit }: ListVoucherBatchesRequest,
): Promise<MessageInitShape<typeof ListVoucherBatchesResponseSchema>> {
  const before = beforeBatchId === "" ? undefined : requireId("before_batch_id", beforeBatchId);
  const rows = await readBatches(pool, { before, limit: requireLimit(limit) });
  return { batches: rows.map(toBatch) };
}

/** A batch with all of its vouchers; `not_found` when there is none of this id. */
export async function listVouchers(
  pool: Pool,
  { batchId }: ListVouchersRequest,
): Promise<MessageInitShape<typeof ListVouchersResponseSchema>> {
  const batch = await requireKnownBatch(pool, batchId);
  const rows = await readVouchers(pool, batchId);
  return {
    batch,
    vouchers: rows.map(({ number, state, accountId, changedAt }) => ({
      number,
      state,
      accountId: accountId ?? "",
      ...(changedAt && { changedAt: timestampFromDate(changedAt) }),
    })),
  };
}

/** Makes void what nobody has redeemed of a batch; again it changes nothing. */
export async function voidVouchers(
  pool: Pool,
  { batchId }: VoidVouchersRequest,
): Promise<MessageInitShape<typeof VoidVouchersResponseSchema>> {
  await requireKnownBatch(pool, batchId);
  await voidOpenVouchers(pool, batchId);
  return { batch: await requireKnownBatch(pool, batchId) };
}

async function requireKnownBatch(pool: Pool, batchId: string) {
  const row = await readBatch(pool, requireId("batch_id", batchId));
  if (!row) throw new ServiceError("not_found", `there is no batch ${batchId}`);
  return toBatch(row);
}

function toBatch({ expiresAt, createdAt, ...batch }: BatchRow): MessageInitShape<typeof VoucherBatchSchema> {
  return {
    ...batch,
    createdAt: timestampFromDate(createdAt),
    ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
  };
}
