import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countClauses, readCounted } from "../../test/contract/coverage.ts";
import { specClauses } from "../../test/contract/spec-rows.ts";
import { officialClients, pythonWith, type Python } from "#shared/testing/python.ts";
import { preparePython } from "../../test/usage/python.ts";
import { prepareStores, prepareTools, show, thisMachine } from "./machine.ts";

const root = join(import.meta.dirname, "../../..");
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const seconds = (sinceMs: number): string => `${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`;

// What `npm test` runs: the stores and the tools of single tests, installed when they are missing, then every check,
// then every test, then the count of the API spec's clauses that tests stand for.
process.chdir(root);
const startedAt = performance.now();
const runner = ["--test", "--test-concurrency=3", "--test-timeout=120000"];
// Hundreds of processes load the same modules: all but the first read them compiled.
const environment = { ...process.env, NODE_COMPILE_CACHE: join(root, "node_modules/.cache/node-compile") };
const patterns = ["services/**/*.test.ts", "deploy/**/*.test.ts"];

function tellMissing(python: Python): void {
  if ("missing" in python) say(`Tests in Python are skipped: ${python.missing}`);
}

async function step(name: string, command: string, args: string[]): Promise<number> {
  const stepStartedAt = performance.now();
  const code = await show(command, args, { environment, output: 1 });
  say(`${name}: ${code === 0 ? "passed" : "FAILED"} in ${seconds(stepStartedAt)}, ${seconds(startedAt)} in all`);
  return code;
}

/** Runs every test; then prints how many clauses of the API spec they stand for, whether or not all of them passed. */
async function testAndCount(): Promise<number> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "passed-tests-"));
  const passed = join(folder.path, "passed.jsonl");
  const reporters = [
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    "--test-reporter=./deploy/test/contract/passed-tests.ts",
    `--test-reporter-destination=${passed}`,
  ];
  const code = await step("tests", process.execPath, [...runner, ...reporters, ...patterns]);
  const { isComplete, text } = countClauses(specClauses, readCounted(await readFile(passed, "utf8")));
  process.stdout.write(`${text}\n`);
  return code !== 0 || isComplete ? code : 1;
}

try {
  const machine = thisMachine(say);
  const { inContainers } = await prepareStores(["redis", "nats", "postgres"], machine);
  if (inContainers.length > 0) {
    // Tests kill and restart their stores, which takes processes beside them.
    const compose = ["compose", "-f", join(import.meta.dirname, "compose.yaml"), "run", "--rm", "tests"];
    process.exitCode = await step("tests in a container", "docker", compose);
  } else {
    await prepareTools(["browser", "prometheus", "promtool", "buildah", "pgbouncer"], machine);
    // Here, because installing them takes longer than a test may.
    tellMissing(await pythonWith(...officialClients));
    tellMissing(await preparePython());
    process.exitCode = (await step("check", "npm", ["run", "--silent", "check"])) || (await testAndCount());
  }
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
