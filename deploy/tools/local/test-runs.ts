import { run } from "node:test";
import { spec, type TestEvent } from "node:test/reporters";
import { join, relative } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { resultReader, type TestResult } from "./test-results.ts";
import type { Job, JobRun } from "./test-verdict.ts";

const testTimeoutMs = 120_000;
// Guards against a file that hangs outside of its tests.
const jobTimeoutMs = 1_800_000;
/** The program of a batch: test files are its arguments. */
export const batchEntry = join(import.meta.dirname, "test-batch.ts");

export type RunSettings = {
  /** The files' paths are relative to it. */
  root: string;
  /** How many jobs run at once. */
  concurrency: number;
  print: (text: string) => void;
};

/** Runs the jobs, so many at once, begun in their order. What each writes is printed when it has ended. */
export async function runJobs(jobs: readonly Job[], settings: RunSettings): Promise<JobRun[]> {
  const left = jobs.values();
  const runs: JobRun[] = [];
  const work = async (): Promise<void> => {
    for (const job of left) runs.push(await runJob(job, settings));
  };
  await Promise.all(Array.from({ length: settings.concurrency }, work));
  return runs;
}

async function runJob(job: Job, { root, print }: RunSettings): Promise<JobRun> {
  const startedAt = performance.now();
  const paths = job.files.map((file) => join(root, file));
  const [only = batchEntry, ...others] = paths;
  const entry = others.length > 0 ? batchEntry : only;
  const stream = run({
    files: [entry],
    argv: entry === batchEntry ? paths : [],
    cwd: root,
    timeout: testTimeoutMs,
    signal: AbortSignal.timeout(jobTimeoutMs),
  });
  const reader = resultReader(entry);
  const shown: TestEvent[] = [];
  const ended = new Set<string>();
  for await (const event of stream as AsyncIterable<TestEvent>) {
    reader.take(event);
    if (event.type === "test:pass" || event.type === "test:fail") ended.add(event.data.name);
    if (isShown(event)) shown.push(event);
  }
  const written = await text(Readable.from(shown).compose(new spec()) as Readable);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  print(`${describeJob(job)} (${seconds} s)\n${written}`);
  const results = [...reader.results(), ...notRun(paths, ended)];
  return { job, results: results.map((result) => fromRoot(root, paths, result)) };
}

/** Files of a batch whose suites have not ended: its process has ended too soon, perhaps with exit code 0. */
function notRun(paths: readonly string[], ended: ReadonlySet<string>): TestResult[] {
  const cause = "its process ended before all of it was run";
  return paths
    .filter((path) => paths.length > 1 && !ended.has(path))
    .map((path) => ({ name: path, file: path, outcome: "failed", cause }));
}

const describeJob = ({ files }: Job): string =>
  files.length === 1 ? (files[0] as string) : `${files.length} files, from ${files[0]} to ${files.at(-1)}`;

/** Counts of each process would hide those of all. */
function isShown({ type, data }: TestEvent): boolean {
  return type !== "test:summary" && !(type === "test:diagnostic" && data.file === undefined);
}

/**
 * With paths from the root, and without the suite that a file is in a batch. What could not be loaded is a test with
 * the path of its file for a name.
 */
function fromRoot(root: string, paths: readonly string[], { name, file, ...rest }: TestResult): TestResult {
  const isOfLoading = paths.includes(name);
  const suite = paths.find((path) => name.startsWith(`${path} > `));
  return {
    name: isOfLoading ? relative(root, name) : name.slice(suite === undefined ? 0 : suite.length + 3),
    file: relative(root, isOfLoading ? name : file),
    ...rest,
  };
}
