import { globSync, readFileSync } from "node:fs";
import { unitTests } from "./unit.ts";
import type { Job } from "./test-verdict.ts";

/** What runs at once, begun in this order, and what then runs by itself. */
export type Plan = { together: Job[]; alone: Job[] };

// They take every core for as long as they run, and starve beside others.
const alone = /^deploy\/test\/(?:simulation\/(?:simulation|mutations)|recordings\/[^/]+)\.test\.ts$/;

// The longest of all, measured on two cores: begun last, one of them would keep all others waiting for its end.
export const longest: readonly string[] = [
  "deploy/test/e2e/skew.test.ts",
  "deploy/test/e2e/console-pages.test.ts",
  "deploy/test/e2e/rolling.test.ts",
  "deploy/test/e2e/kill-video-task.test.ts",
  "deploy/test/e2e/console.test.ts",
  "deploy/test/e2e/console-operators.test.ts",
  "deploy/test/e2e/kill-relay-lost.test.ts",
  "deploy/test/e2e/kill-relay.test.ts",
  "deploy/observability/scrape.test.ts",
];

const filesOfBatch = 40;

/** Puts the files of tests, with the texts of all sources, into an order; unit tests are few processes' work. */
export function planJobs(texts: ReadonlyMap<string, string>): Plan {
  const files = [...texts.keys()].filter((path) => path.endsWith(".test.ts")).toSorted();
  const units = new Set(unitTests(texts).filter((path) => !path.startsWith("deploy/test/simulation/")));
  const rest = files.filter((path) => !units.has(path) && !alone.test(path));
  const rank = (path: string): number => (longest.includes(path) ? longest.indexOf(path) : longest.length);
  const single = (path: string): Job => ({ files: [path] });
  return {
    together: [
      ...rest.toSorted((one, other) => rank(one) - rank(other)).map(single),
      ...batches([...units].toSorted()),
    ],
    alone: files.filter((path) => alone.test(path) && !units.has(path)).map(single),
  };
}

function batches(files: readonly string[]): Job[] {
  const count = Math.ceil(files.length / filesOfBatch);
  return Array.from({ length: count }, (_, batch) => ({ files: files.filter((__, index) => index % count === batch) }));
}

/** Every TypeScript source below the current folder that may hold tests or be imported by one. */
export function readSources(): Map<string, string> {
  const paths = globSync(["services/**/*.ts", "deploy/**/*.ts"]);
  return new Map(paths.map((path) => [path, readFileSync(path, "utf8")]));
}
