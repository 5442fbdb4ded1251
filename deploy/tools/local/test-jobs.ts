import { globSync, readFileSync } from "node:fs";
import { dayMs } from "#shared/process/clock.ts";
import { unitTests } from "./unit.ts";
import type { Job } from "./test-verdict.ts";

/** What runs at once, begun in this order, and what then runs by itself. */
export type Plan = { together: Job[]; alone: Job[] };

// They take every core for as long as they run, and starve beside others.
const alone = /^deploy\/test\/(?:simulation\/(?:simulation|mutations)|recordings\/[^/]+)\.test\.ts$/;

// The longest of all, measured on two cores: begun last, one of them would keep all others waiting for its end.
export const longest: readonly string[] = [
  "deploy/test/e2e/console-pages.test.ts",
  "deploy/test/e2e/skew.test.ts",
  "deploy/test/e2e/console.test.ts",
  "deploy/image/build.test.ts",
  "deploy/test/e2e/console-operators.test.ts",
  "deploy/test/e2e/kill-video-task.test.ts",
  "deploy/test/hostile/short.test.ts",
];

/**
 * Drills: whole systems that are killed, attacked, upgraded or built, each for one fault or one way to deploy, beside
 * cheaper tests of the same rule. `npm test` runs another third each day, `npm run test:drills` all. What a clause of
 * the API spec needs is no drill. The thirds take about as much of a processor, as measured.
 */
export const drills: readonly (readonly string[])[] = [
  [
    "deploy/test/chaos/short-tasks.test.ts",
    "deploy/test/e2e/console-pages.test.ts",
    "deploy/test/e2e/kill-stores.test.ts",
    "deploy/test/e2e/kill-video-task.test.ts",
    "deploy/test/e2e/sockets-drain.test.ts",
    "deploy/test/e2e/tracing.test.ts",
    "deploy/test/hostile/short.test.ts",
  ],
  [
    "deploy/image/build.test.ts",
    "deploy/test/cheats/cheats.test.ts",
    "deploy/test/e2e/bad-catalog.test.ts",
    "deploy/test/e2e/encrypted.test.ts",
    "deploy/test/e2e/forged-events.test.ts",
    "deploy/test/e2e/kill-billing-prices.test.ts",
    "deploy/test/e2e/leases.test.ts",
    "deploy/test/e2e/stolen-logins.test.ts",
    "deploy/test/e2e/stores.test.ts",
    "deploy/tools/local/main.test.ts",
  ],
  [
    "deploy/bench/videos/short-run.test.ts",
    "deploy/observability/burn.test.ts",
    "deploy/test/e2e/console-operators.test.ts",
    "deploy/test/e2e/drain.test.ts",
    "deploy/test/e2e/kill-relay-lost.test.ts",
    "deploy/test/e2e/pooled.test.ts",
    "deploy/tools/local/stack.test.ts",
    "deploy/tools/migrate/migrate.test.ts",
    "services/billing/crash.test.ts",
    "services/console/top-ups/automatic-crash.test.ts",
    "services/relay/http/hostile-bodies.test.ts",
  ],
];

/** The drills that `npm test` runs on the day of this time, and those that it leaves to the two days after it. */
export function drillsOn(nowMs: number): { run: readonly string[]; left: readonly string[] } {
  const today = Math.floor(nowMs / dayMs) % drills.length;
  return { run: drills[today] ?? [], left: drills.filter((_, index) => index !== today).flat() };
}

const filesOfBatch = 40;
// Few, so that a failure has few files to look for it in, and no batch keeps all others waiting for its end.
const filesOfSystem = 16;

// To load what they test and to start its stores takes these as long as most of their tests do.
const sharing: readonly { names: RegExp; most: number }[] = [
  { names: /^(services\/console)\//, most: 9 },
  { names: /^(services\/[^/]+)\//, most: 12 },
  { names: /^(deploy\/bench)\/[^/]+$/, most: 8 },
  { names: /^(deploy\/tools\/(?:admin|checks))\//, most: 5 },
  { names: /^(deploy\/test\/chart)\//, most: 15 },
  { names: /^(deploy\/test\/e2e)\//, most: 4 },
  { names: /^(deploy\/tools\/local)\//, most: 4 },
];

const sharedWorld = /\bsharedWorld(With\b|\(\w*\))/;

/**
 * Puts the files of tests, with the texts of all sources, into an order. Unit tests share processes, and so do tests of
 * one service or tool. Takes those that are wanted.
 */
export function planJobs(texts: ReadonlyMap<string, string>, isWanted: (path: string) => boolean): Plan {
  const files = [...texts.keys()].filter((path) => isShort(path) && isWanted(path)).toSorted();
  const units = new Set(unitTests(texts).filter((path) => !path.startsWith("deploy/test/simulation/")));
  const rest = files.filter((path) => !units.has(path));
  const systemOf = (path: string): string | undefined => sharedWorld.exec(texts.get(path) ?? "")?.[1];
  const single = (path: string): Job => ({ files: [path] });
  const onSystems = rest.filter((path) => systemOf(path) !== undefined);
  const others = rest.filter((path) => systemOf(path) === undefined && !alone.test(path));
  const roomOf = (path: string): string | undefined => shareOf(path)?.room;
  const singles = others.filter((path) => roomOf(path) === undefined);
  const inRooms = Map.groupBy(
    others.filter((path) => !singles.includes(path)),
    roomOf,
  );
  return {
    together: [
      ...longest.filter((path) => singles.includes(path)).map(single),
      ...[...Map.groupBy(onSystems, systemOf).values()].flatMap((group) => batches(group, filesOfSystem)),
      ...[...inRooms.values()].flatMap((group) => batches(group, shareOf(group[0] ?? "")?.most ?? 1)),
      ...singles.filter((path) => !longest.includes(path)).map(single),
      ...batches(
        files.filter((path) => units.has(path)),
        filesOfBatch,
      ),
    ],
    alone: rest.filter((path) => alone.test(path)).map(single),
  };
}

/** Long tests, of which others prove the most, have a command of their own: `npm run test:long`. */
const isShort = (path: string): boolean => path.endsWith(".test.ts") && !path.endsWith(".long.test.ts");

/** With whom a file shares a process, if with any, and how many files one process takes. The longest are alone. */
function shareOf(path: string): { room: string; most: number } | undefined {
  if (longest.includes(path)) return undefined;
  for (const { names, most } of sharing) {
    const room = names.exec(path)?.[1];
    if (room !== undefined) return { room, most };
  }
  return undefined;
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
