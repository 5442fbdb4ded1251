import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { costNanos } from "#shared/money/pricing.ts";

/** The length and the size of a video, as far as its provider tells them. */
export type Delivered = { seconds: number | undefined; size: string | undefined };

/** Pixels of a picture of a size; undefined for what is none. */
function pixelsOf(size: string | undefined): bigint | undefined {
  const [, width, height] = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/.exec(size ?? "") ?? [];
  return width === undefined || height === undefined ? undefined : BigInt(width) * BigInt(height);
}

/** Milliseconds of the size that was asked for that hold as many pixels as were delivered, rounded up. */
function asAskedFor(ms: bigint, delivered: string | undefined, asked: string): bigint {
  const [made, wanted] = [pixelsOf(delivered), pixelsOf(asked)];
  return made === undefined || wanted === undefined || made >= wanted ? ms : (ms * made + wanted - 1n) / wanted;
}

/** To a billionth of a second before up: 0.07 s would be 71 ms, because floats make 70.00000000000001 of it. */
function millisecondsOf(seconds: number | undefined): bigint | undefined {
  if (seconds === undefined || !(seconds > 0 && Number.isFinite(seconds))) return undefined;
  return BigInt(Math.ceil(Number((seconds * 1_000).toFixed(6))) || 1);
}

/**
 * What was charged for length, and for pixels of it, that the provider did not deliver, in nano-USD, by the prices of
 * the charge itself and not of the current catalog. `charge` is the encoded usage.v1.UsageRecorded. 0 when length is
 * not priced, and when what was delivered is more or unknown: nothing beyond the request is charged. Always less than
 * the charge, as a delivered millisecond costs something.
 */
export function undeliveredNanos(charge: Uint8Array, delivered: Delivered, askedSize: string): bigint {
  const { usage, unitPriceNanos: prices } = fromBinary(UsageRecordedSchema, charge);
  if (!usage || !prices || prices.mediaMs <= 0n) return 0n;
  const toldMs = millisecondsOf(delivered.seconds) ?? usage.mediaMs;
  const lengthMs = toldMs < usage.mediaMs ? toldMs : usage.mediaMs;
  const deliveredMs = asAskedFor(lengthMs, delivered.size, askedSize);
  if (deliveredMs >= usage.mediaMs) return 0n;
  return costNanos(usage, prices) - costNanos({ ...usage, mediaMs: deliveredMs }, prices);
}
