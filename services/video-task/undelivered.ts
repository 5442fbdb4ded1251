import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { costNanos } from "#shared/money/pricing.ts";

/**
 * What was charged for a length that a provider has not delivered, in nano-USD: by the prices of the charge itself,
 * whatever the catalog says by now. `charge` is the encoded usage.v1.UsageRecorded. 0 where the length is not what is
 * priced, and for a length that is longer or not told: nothing more is charged than what was asked for. Always less
 * than the charge, because a delivered millisecond costs something.
 */
export function undeliveredNanos(charge: Uint8Array, deliveredSeconds: number | undefined): bigint {
  if (deliveredSeconds === undefined || !(deliveredSeconds > 0 && Number.isFinite(deliveredSeconds))) return 0n;
  const { usage, unitPriceNanos: prices } = fromBinary(UsageRecordedSchema, charge);
  if (!usage || !prices || prices.mediaMs <= 0n) return 0n;
  // To a billionth of a second before up: 0.07 s would be 71 ms, because floats make 70.00000000000001 of it.
  const deliveredMs = BigInt(Math.ceil(Number((deliveredSeconds * 1_000).toFixed(6))) || 1);
  if (deliveredMs >= usage.mediaMs) return 0n;
  return costNanos(usage, prices) - costNanos({ ...usage, mediaMs: deliveredMs }, prices);
}
