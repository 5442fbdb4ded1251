import { quantile } from "./statistics.ts";

/** What so many of a hundred, or a thousand, stay below. */
export type Quantiles = { p50: number; p99: number; p999: number };

/** A growing list of numbers that makes no garbage. */
export type Samples = {
  add: (value: number) => void;
  clear: () => void;
  quantiles: () => Quantiles;
};

export function createSamples(): Samples {
  let values = new Float64Array(65_536);
  let count = 0;
  return {
    add: (value) => {
      if (count === values.length) {
        const larger = new Float64Array(count * 2);
        larger.set(values);
        values = larger;
      }
      values[count] = value;
      count += 1;
    },
    clear: () => {
      count = 0;
    },
    quantiles: () => {
      const sorted = values.slice(0, count).sort();
      return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), p999: quantile(sorted, 0.999) };
    },
  };
}
