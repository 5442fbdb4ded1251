/** Which series a dashboard looks at: those of the namespaces that are chosen above it. */
const scope = 'namespace=~"$namespace"';

const selector = (metric: string, matcher: string): string =>
  `${metric}{${matcher === "" ? scope : `${scope},${matcher}`}}`;

const grouped = (operator: string, by: string, inner: string): string =>
  by === "" ? `${operator}(${inner})` : `${operator} by (${by}) (${inner})`;

/** How fast a counter grows, per second; `by` names labels, with commas between them. */
export const perSecond = (metric: string, by = "", matcher = ""): string =>
  grouped("sum", by, `rate(${selector(metric, matcher)}[$__rate_interval])`);

/** What a counter has grown by within the time that the dashboard shows. */
export const grownBy = (metric: string, by = "", matcher = ""): string =>
  grouped("sum", by, `increase(${selector(metric, matcher)}[$__range])`);

/** The sum of a gauge over processes. */
export const sumOf = (metric: string, by = "", matcher = ""): string => grouped("sum", by, selector(metric, matcher));

/** The greatest of a gauge that every replica tells alike, or of which the worst process counts. */
export const greatest = (metric: string, by = "", matcher = ""): string =>
  grouped("max", by, selector(metric, matcher));

/** A quantile of a histogram, as exact as its buckets are. */
export function quantile(share: number, histogram: string, by = "", matcher = ""): string {
  const labels = by === "" ? "le" : `${by}, le`;
  return `histogram_quantile(${share}, ${perSecond(`${histogram}_bucket`, labels, matcher)})`;
}

/** How long a moment that is given in seconds since 1970 is ago. */
export const ago = (metric: string, by: string): string => `time() - ${greatest(metric, by)}`;
