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
// Few, so that the batches of one system can run beside each other, and a failure has few files to look for it in.
const filesOfSystem = 7;

// Loading the console takes as long as most of its tests, which start it in their own process.
const ofConsole = /^services\/console\//;
const filesOfConsole = 6;

const sharedWorld = /\bsharedWorld\((\w*)\)/;

/**
 * Puts the files of tests, with the texts of all sources, into an order. Unit tests share processes, and so do some
 * others.
 */
export function planJobs(texts: ReadonlyMap<string, string>): Plan {
  const files = [...texts.keys()].filter((path) => path.endsWith(".test.ts")).toSorted();
  const units = new Set(unitTests(texts).filter((path) => !path.startsWith("deploy/test/simulation/")));
  const rest = files.filter((path) => !units.has(path));
  const systemOf = (path: string): string | undefined => sharedWorld.exec(texts.get(path) ?? "")?.[1];
  const single = (path: string): Job => ({ files: [path] });
  const isSingle = (path: string): boolean =>
    systemOf(path) === undefined && !ofConsole.test(path) && !alone.test(path);
  const singles = rest.filter(isSingle);
  const sharing = rest.filter((path) => systemOf(path) !== undefined);
  return {
    together: [
      ...longest.filter((path) => singles.includes(path)).map(single),
      ...[...Map.groupBy(sharing, systemOf).values()].flatMap((group) => batches(group, filesOfSystem)),
      ...batches(
        rest.filter((path) => ofConsole.test(path)),
        filesOfConsole,
      ),
      ...singles.filter((path) => !longest.includes(path)).map(single),
      ...batches(
        files.filter((path) => units.has(path)),
        filesOfBatch,
      ),
    ],
    alone: rest.filter((path) => alone.test(path)).map(single),
  };
}

function batches(files: readonly string[], most: number): Job[] {
  const count = Math.ceil(files.length / most);
  return Array.from({ length: count }, (_, batch) => ({ files: files.filter((__, index) => index % count === batch) }));
}

/** Every TypeScript source below the current folder that may hold tests or be imported by one. */
export function readSources(): Map<string, string> {
  const paths = globSync(["services/**/*.ts", "deploy/**/*.ts"]);
  return new Map(paths.map((path) => [path, readFileSync(path, "utf8")]));
}
