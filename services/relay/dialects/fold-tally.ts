import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { AnswerSink, DeliveredBucket, ToldUsage } from "./answer.ts";
import { emptyTally, noCounts, outputOf, type Tally, type UpstreamError } from "./dialect.ts";

// Before any content: all of it is more than was told.
const beforeAll = -1;

/** Behind how much content counts were told, which may come again with the next piece of a stream. */
function runningAtOf({ units, isLast, isPartial }: ToldUsage, tally: Tally): number | undefined {
  if (isPartial) return beforeAll;
  if (isLast || tally.isEnding) return undefined;
  const { usage, runningAt = beforeAll, contentTokens } = tally;
  return runningAt === beforeAll || outputOf(units) > outputOf(usage) ? contentTokens : runningAt;
}

/** Whether all counts are 0, as some servers send them behind the real ones. One that is no count says more. */
function tellsNothing(units: Units | undefined): boolean {
  if (units === noCounts) return false;
  for (const name in units) if ((units[name as UsageBucket] ?? 0n) > 0n) return false;
  return true;
}

/** Keeps the tally of a call: the same fold for all dialects, whole answers and streams. */
export class TallyFold implements AnswerSink {
  readonly isShown = false;
  tally: Tally = emptyTally();
  /** The provider's last error. */
  reported: UpstreamError | undefined;

  content(tokens: number): void {
    this.tally.hasContent = true;
    this.tally.contentTokens += tokens;
  }

  show(): void {}

  usage(told: ToldUsage): void {
    const { tally } = this;
    const { scope, units, total, byModel, longestInputTokens } = told;
    if (scope === "input") {
      tally.inputUsage = units;
      return;
    }
    if (tellsNothing(units) && !tellsNothing(tally.usage)) return;
    tally.runningAt = runningAtOf(told, tally);
    tally.usage = units;
    if (!told.isPartial) this.forgetDelivered();
    tally.toldTokens = total;
    tally.byModel = byModel;
    tally.longestInputTokens = longestInputTokens;
  }

  counted(bucket: UsageBucket, units: bigint): void {
    this.tally.counted[bucket] = units;
  }

  delivered(bucket: DeliveredBucket, tokens: number): void {
    const { tally } = this;
    tally.hasContent = true;
    // A new object, because checkpoints keep the one before.
    tally.counted = { ...tally.counted, [bucket]: (tally.counted[bucket] ?? 0n) + BigInt(Math.round(tokens)) };
  }

  private forgetDelivered(): void {
    const { audioOutputTokens, imageOutputTokens, ...counted } = this.tally.counted;
    if (audioOutputTokens ?? imageOutputTokens) this.tally.counted = counted;
  }

  /** The first name of the model stands, and the last word on the tier. Some send "" at first, which tells nothing. */
  served(model: string | undefined, serviceTier?: string): void {
    const { tally } = this;
    if (model) tally.modelServed ??= model;
    if (serviceTier) tally.serviceTier = serviceTier;
  }

  priceField(name: string, value: string): void {
    // A new object, because checkpoints keep the one before.
    this.tally.priceFields = { ...this.tally.priceFields, [name]: value };
  }

  ended(hasFinish: boolean, isEnding: boolean): void {
    this.tally.hasFinish = hasFinish;
    this.tally.isEnding = isEnding;
  }

  markEnd(): void {
    const { tally } = this;
    tally.isComplete = tally.hasFinish && !tally.isFailed;
  }

  finish(): void {}

  error(error: UpstreamError): void {
    this.reported = error;
    this.tally.isFailed = true;
  }

  unreadable(): void {}
}
