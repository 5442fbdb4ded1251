import type { Logger } from "#shared/process/log.ts";
import { usageBuckets, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import type { Model } from "../catalog/models.ts";
import { dialects } from "../dialects/index.ts";
import type { Metrics } from "../metrics.ts";
import { asPricedTools } from "./tool-units.ts";

const isToken = (bucket: UsageBucket): boolean => bucket.endsWith("Tokens");
const tokenBuckets = usageBuckets.filter(isToken);

/**
 * Units by which a model is not charged on purpose, because one of its dialects has another measure that it is priced
 * by: its tokens where it is priced by the image, its images where it is priced by tokens. Nobody must price requests,
 * nor web fetches, which are billed by their tokens.
 */
function otherMeasures({ dialects: names, prices }: Model): Set<UsageBucket> {
  const others = new Set<UsageBucket>(["requests", "webFetches"]);
  const isWhole = (set: readonly UsageBucket[]): boolean => set.every((bucket) => prices[bucket] !== undefined);
  for (const { measures } of [...names].map((name) => dialects[name])) {
    const whole = measures.filter(isWhole);
    if (whole.length === 0) continue;
    const left = measures.filter((set) => !isWhole(set)).flat();
    // Providers tell more kinds of tokens than a measure by tokens asks for.
    if (whole.some((set) => !set.some(isToken))) left.push(...tokenBuckets);
    for (const bucket of left) others.add(bucket);
  }
  return others;
}

const othersOfModels = new WeakMap<Model, Set<UsageBucket>>();

/** Units that a call used and that no price of its model speaks of, where some should. */
export function unpricedUnits(model: Model, used: Units): [UsageBucket, bigint][] {
  const measured = asPricedTools(used, model.prices);
  let others = othersOfModels.get(model);
  if (!others) othersOfModels.set(model, (others = otherMeasures(model)));
  const found: [UsageBucket, bigint][] = [];
  for (const bucket of usageBuckets) {
    const units = measured[bucket] ?? 0n;
    if (units > 0n && model.prices[bucket] === undefined && !others.has(bucket)) found.push([bucket, units]);
  }
  return found;
}

const hasUse = (usage: Units): boolean =>
  usageBuckets.some((bucket) => bucket !== "requests" && (usage[bucket] ?? 0n) > 0n);

/** Tells the operator of a charge that left out units which no price speaks of, or that is 0 although there was use. */
export function checkPriced(
  { metrics, log }: { metrics: Metrics; log: Logger },
  { rid, model, upstream }: { rid: string; model: Model; upstream: string },
  measured: Units,
  costNanos: bigint,
): void {
  const unpriced = unpricedUnits(model, measured);
  for (const [bucket, units] of unpriced) metrics.unpricedUnits.inc({ bucket, upstream }, Number(units));
  const isFree = costNanos === 0n && hasUse(measured);
  if (isFree) metrics.freeCalls.inc({ upstream });
  if (unpriced.length === 0 && !isFree) return;
  const units = Object.fromEntries(unpriced.map(([bucket, count]) => [bucket, count.toString()]));
  const what = { rid, model: model.id, priceVersion: model.priceVersion, upstream, unpriced: units };
  log.error(what, isFree ? "a call cost nothing although units were used" : "units without a price were not charged");
}
