import { availableParallelism } from "node:os";
import { join } from "node:path";
import { countClauses } from "../../test/contract/coverage.ts";
import { specClauses } from "../../test/contract/spec-rows.ts";
import { officialClients, pythonWith, type Python } from "#shared/testing/python.ts";
import { preparePython } from "../../test/usage/python.ts";
import { bundleServices, bundlesVariable } from "./bundles.ts";
import { type Machine, prepareStores, prepareTools, show, thisMachine } from "./machine.ts";
import { drills, drillsOn, planJobs, readSources } from "./test-jobs.ts";
import type { TestResult } from "./test-results.ts";
import { runJobs } from "./test-runs.ts";
import { describeVerdict, filesToRunAgain, judge } from "./test-verdict.ts";

const root = join(import.meta.dirname, "../../..");
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const print = (text: string): void => void process.stdout.write(text);
const seconds = (sinceMs: number): string => `${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`;

// What `npm test` runs: the stores and the tools of single tests, installed when they are missing, then every check,
// then every test but the drills of other days, then the count of the API spec's clauses that tests stand for. Its last
// line is the count of tests. `npm run test:drills` runs all drills and nothing else: `drills` is its argument.
process.chdir(root);
const areAllDrills = process.argv[2] === "drills";
const startedAt = performance.now();
// Hundreds of processes load the same modules: all but the first read them compiled.
process.env["NODE_COMPILE_CACHE"] = join(root, "node_modules/.cache/node-compile");
// Programs in Go clear up after every few megabytes, which takes them a quarter of their time.
process.env["GOGC"] ??= "400";

function tellMissing(python: Python): void {
  if ("missing" in python) say(`Tests in Python are skipped: ${python.missing}`);
}

async function step(name: string, command: string, args: string[]): Promise<number> {
  const stepStartedAt = performance.now();
  const code = await show(command, args, { environment: process.env, output: 1 });
  sayEnd(name, code === 0, stepStartedAt);
  return code;
}

function sayEnd(name: string, isPassed: boolean, stepStartedAt: number): void {
  say(`${name}: ${isPassed ? "passed" : "FAILED"} in ${seconds(stepStartedAt)}, ${seconds(startedAt)} in all`);
}

/** Runs the checks; without a test that has run, they count as the one that failed. */
async function check(): Promise<boolean> {
  const isPassed = (await step("check", "npm", ["run", "--silent", "check"])) === 0;
  if (!isPassed) print("failed: npm run check; no test has run\n0 passed, 1 failed, 0 skipped\n");
  return isPassed;
}

/** Installs what single tests need: here, because it takes longer than a test may. */
async function prepareTests(machine: Machine): Promise<void> {
  await prepareTools(["headless-shell", "prometheus", "promtool", "buildah", "pgbouncer"], machine);
  await prepareTools(["browser"], machine);
  tellMissing(await pythonWith(...officialClients));
  tellMissing(await preparePython());
}

/** Hundreds of services are started from now on, each of them as one file. */
async function bundle(): Promise<void> {
  const bundledAt = performance.now();
  const folder = join(root, "node_modules/.cache/bundles");
  await bundleServices(folder);
  process.env[bundlesVariable] = folder;
  sayEnd("bundles", true, bundledAt);
}

/** Tells which tests this run is of. */
function choose(): (path: string) => boolean {
  if (areAllDrills) return (path) => drills.flat().includes(path);
  const { run, left } = drillsOn(Date.now());
  const list = (paths: readonly string[]): string => paths.map((path) => `\n  ${path}`).join("");
  print(`drills of today:${list(run)}\ndrills of other days, see npm run test:drills:${list(left)}\n`);
  return (path) => !left.includes(path);
}

/** Runs the tests, and once more what failed; then prints the failures and what the tests prove, passed or not. */
async function testAndCount(): Promise<number> {
  const testsStartedAt = performance.now();
  const { together, alone } = planJobs(readSources(), choose());
  // Most tests wait for servers half of their time: one more than twice the cores, since some wait longer. A system of
  // five services and three stores takes a gigabyte.
  const settings = { root, concurrency: Math.min(2 * availableParallelism() + 1, 8), print };
  const first = [...(await runJobs(together, settings)), ...(await runJobs(alone, { ...settings, concurrency: 1 }))];
  const again = filesToRunAgain(first);
  if (again.length > 0) print(`once more, one at a time: ${again.join(", ")}\n`);
  const second = await runJobs(
    again.map((file) => ({ files: [file] })),
    { ...settings, concurrency: 1 },
  );
  const verdict = judge(first, second);
  sayEnd("tests", verdict.failures.length === 0, testsStartedAt);
  const isProven = areAllDrills || proves(verdict.results);
  print(`${describeVerdict(verdict)}\n`);
  return verdict.failures.length === 0 && isProven ? 0 : 1;
}

/** Prints which clauses of the API spec have been proven; whether all are. */
function proves(results: readonly TestResult[]): boolean {
  const { isComplete, text } = countClauses(specClauses, results);
  print(`${text}\n${isComplete ? "" : "failed: a clause of the API spec has no passing test\n"}`);
  return isComplete;
}

try {
  const machine = thisMachine(say);
  const { inContainers } = await prepareStores(["redis", "nats", "postgres"], machine);
  if (inContainers.length > 0) {
    // Tests kill and restart their stores, which takes processes beside them.
    const compose = ["compose", "-f", join(import.meta.dirname, "compose.yaml"), "run", "--rm", "tests"];
    const command = areAllDrills ? ["npm", "run", "test:drills"] : [];
    process.exitCode = await step("tests in a container", "docker", [...compose, ...command]);
  } else {
    // The checks need nothing of it, and to install it is mostly to wait.
    const [isChecked] = await Promise.all([areAllDrills || check(), prepareTests(machine)]);
    if (isChecked) {
      await bundle();
      process.exitCode = await testAndCount();
    } else process.exitCode = 1;
  }
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
