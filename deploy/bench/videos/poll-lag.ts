/** What /metrics tells of how late polls began: their number up to each bound in seconds, the last one infinite. */
export type PollLag = { upTo: Map<number, number> };

const bucket = /^video_task_poll_lag_seconds_bucket\{(?:[^}]*,)?le="([^"]+)"[^}]*\} (\S+)$/gm;

/** Reads it from the text of /metrics. */
export function parsePollLag(text: string): PollLag {
  const read = (bound = ""): number => (bound === "+Inf" ? Infinity : Number(bound));
  return { upTo: new Map([...text.matchAll(bucket)].map(([, bound, count]) => [read(bound), Number(count)])) };
}

/** Asks a service. */
export async function readPollLag(opsUrl: string): Promise<PollLag> {
  const response = await fetch(`${opsUrl}/metrics`);
  return parsePollLag(await response.text());
}

/** The polls between two readings. */
export function pollLagBetween(before: PollLag, after: PollLag): PollLag {
  return { upTo: new Map([...after.upTo].map(([bound, count]) => [bound, count - (before.upTo.get(bound) ?? 0)])) };
}

/** How many polls began. */
export const pollsOf = ({ upTo }: PollLag): number => upTo.get(Infinity) ?? 0;

/**
 * Seconds that `share` (0 to 1) of the polls were not later than; within a bucket they count as spread evenly, as
 * Prometheus does it. NaN without polls; the last bound when it was more than that.
 */
export function pollLagQuantile({ upTo }: PollLag, share: number): number {
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
