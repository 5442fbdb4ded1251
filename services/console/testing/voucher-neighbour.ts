import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  VoucherBatchSchema,
  VoucherSchema,
  VoucherState,
  type BillingService,
  type CreateVouchersRequest,
  type Voucher,
  type VoucherBatch,
} from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { maxAccountNanos } from "#shared/money/money.ts";

type StoredVoucher = { batch: VoucherBatch; voucher: Voucher; lineId: string };

function refuseClosed({ expiresAt, amountNanos }: VoucherBatch, balanceNanos: bigint, nowMs: number): void {
  if (expiresAt && timestampMs(expiresAt) <= nowMs)
    throw new ServiceError("failed_precondition", "this voucher is expired");
  if (balanceNanos + amountNanos > maxAccountNanos) {
    throw new ServiceError("failed_precondition", "the balance would leave the range");
  }
}

/** From memory: vouchers. */
export function createVoucherNeighbour(nowMs: () => number) {
  const batches = new Map<string, VoucherBatch>();
  /** By the hash of the code in hexadecimal. */
  const vouchers = new Map<string, StoredVoucher>();
  /** What was put into accounts. */
  const credits: { accountId: string; amountNanos: bigint }[] = [];
  const balanceOf = (of: string): bigint =>
    credits.reduce((sum, { accountId, amountNanos }) => (accountId === of ? sum + amountNanos : sum), 0n);

  const ofBatch = (batchId: string): StoredVoucher[] =>
    [...vouchers.values()].filter(({ batch }) => batch.batchId === batchId);
  function found(batchId: string): VoucherBatch {
    const batch = batches.get(batchId);
    if (!batch) throw new ServiceError("not_found", `batch ${batchId} does not exist`);
    const states = ofBatch(batchId).map(({ voucher }) => voucher.state);
    batch.redeemed = states.filter((state) => state === VoucherState.REDEEMED).length;
    batch.voided = states.filter((state) => state === VoucherState.VOID).length;
    return batch;
  }
  function make({ batchId, amountNanos, codeHashes, expiresAt, note }: CreateVouchersRequest): void {
    const batch = create(VoucherBatchSchema, { batchId, amountNanos, note, vouchers: codeHashes.length });
    batch.createdAt = timestampFromMs(nowMs());
    if (expiresAt) batch.expiresAt = expiresAt;
    batches.set(batchId, batch);
    for (const [index, hash] of codeHashes.entries()) {
      const voucher = create(VoucherSchema, { number: index + 1, state: VoucherState.OPEN });
      const lineId = `line of voucher ${batchId}/${index + 1}`;
      vouchers.set(Buffer.from(hash).toString("hex"), { batch, voucher, lineId });
    }
  }
  function redeem(accountId: string, codeHash: Uint8Array) {
    const kept = vouchers.get(Buffer.from(codeHash).toString("hex"));
    if (!kept || kept.voucher.state === VoucherState.VOID)
      throw new ServiceError("not_found", "no voucher has this code");
    const { batch, voucher, lineId } = kept;
    const { amountNanos, batchId } = batch;
    if (voucher.state === VoucherState.OPEN) {
      refuseClosed(batch, balanceOf(accountId), nowMs());
      Object.assign(voucher, { state: VoucherState.REDEEMED, accountId, changedAt: timestampFromMs(nowMs()) });
      credits.push({ accountId, amountNanos });
    } else if (voucher.accountId !== accountId) {
      throw new ServiceError("failed_precondition", "this voucher is used up");
    }
    const line = { lineId, accountId, amountNanos, reference: `voucher:${batchId}:${voucher.number}` };
    return { line, balanceNanos: balanceOf(accountId) };
  }

  const handlers = {
    createVouchers: async (request) => {
      if (!batches.has(request.batchId)) make(request);
      return { batch: found(request.batchId) };
    },
    redeemVoucher: async ({ accountId, codeHash }) => redeem(accountId, codeHash),
    listVoucherBatches: async ({ beforeBatchId, limit }) => {
      const ids = [...batches.keys()].toReversed();
      const shown = ids.slice(beforeBatchId === "" ? 0 : ids.indexOf(beforeBatchId) + 1).slice(0, limit || 100);
      return { batches: shown.map(found) };
    },
    listVouchers: async ({ batchId }) => ({
      batch: found(batchId),
      vouchers: ofBatch(batchId).map(({ voucher }) => voucher),
    }),
    voidVouchers: async ({ batchId }) => {
      const open = ofBatch(batchId).filter(({ voucher }) => voucher.state === VoucherState.OPEN);
      for (const { voucher } of open) {
        Object.assign(voucher, { state: VoucherState.VOID, changedAt: timestampFromMs(nowMs()) });
      }
      return { batch: found(batchId) };
    },
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
  return { handlers, batches, vouchers, credits };
}
