/** What /metrics tells of how late looks began: their number up to each bound in seconds, the last one infinite. */
export type LookLag = { upTo: Map<number, number> };

const bucket = /^video_task_look_lag_seconds_bucket\{(?:[^}]*,)?le="([^"]+)"[^}]*\} (\S+)$/gm;

/** Reads it from the text of /metrics. */
export function parseLookLag(text: string): LookLag {
  const read = (bound = ""): number => (bound === "+Inf" ? Infinity : Number(bound));
  return { upTo: new Map([...text.matchAll(bucket)].map(([, bound, count]) => [read(bound), Number(count)])) };
}

/** Asks a service. */
export async function readLookLag(opsUrl: string): Promise<LookLag> {
  const response = await fetch(`${opsUrl}/metrics`);
  return parseLookLag(await response.text());
}

/** The looks between two readings. */
export function lookLagBetween(before: LookLag, after: LookLag): LookLag {
  return { upTo: new Map([...after.upTo].map(([bound, count]) => [bound, count - (before.upTo.get(bound) ?? 0)])) };
}

/** How many looks began. */
export const looksOf = ({ upTo }: LookLag): number => upTo.get(Infinity) ?? 0;

/**
 * Seconds that `share` (0 to 1) of the looks were not later than; within a bucket they count as spread evenly, as
 * Prometheus does it. NaN without looks; the last bound when it was more than that.
 */
export function lookLagQuantile({ upTo }: LookLag, share: number): number {
  const wanted = share * (upTo.get(Infinity) ?? 0);
  let lower = { bound: 0, count: 0 };
  for (const [bound, count] of [...upTo].toSorted(([one], [other]) => one - other)) {
    if (count > 0 && count >= wanted) {
      if (bound === Infinity) return lower.bound;
      return lower.bound + ((bound - lower.bound) * (wanted - lower.count)) / (count - lower.count || 1);
    }
    lower = { bound, count };
  }
  return Number.NaN;
}
