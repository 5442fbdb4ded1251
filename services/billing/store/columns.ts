import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets } from "#shared/money/pricing.ts";

/** The columns of the ledger that count units, in the order of usageBuckets: named as in usage.v1.Usage. */
export const unitColumns = usageBuckets.map((bucket) => UsageSchema.field[bucket].name);
