import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { costNanos } from "#shared/money/pricing.ts";

/**
 * What was charged for length that the provider did not deliver, in nano-USD, by the prices of the charge itself and
 * not of the current catalog. `charge` is the encoded usage.v1.UsageRecorded. 0 when the length is not priced, and when
 * the delivered length is longer or unknown: nothing beyond the request is charged. Always less than the charge, as a
 * delivered millisecond costs something.
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
