import type { TestResult } from "./test-results.ts";

/** Test files that one process runs. Each but a batch of unit tests is alone in it. */
export type Job = { files: readonly string[] };

/** A job that has run. */
export type JobRun = { job: Job; results: readonly TestResult[] };

// A machine that stands still for a moment makes a test or two fail; a defect that fails so many files is none.
const mostRunAgain = 5;

const failures = ({ results }: JobRun): TestResult[] => results.filter(({ outcome }) => outcome === "failed");

/** The files that a result may be of: that which declares the test, or all of its job when none of them does. */
function filesOf({ files }: Job, { file }: TestResult): readonly string[] {
  return files.includes(file) ? [file] : files;
}

/** The files with failures in a job. A failure in a module that several files share counts as that of one file. */
function failedOf(run: JobRun): { count: number; files: readonly string[] } {
  const failed = new Set(failures(run).map((failure) => filesOf(run.job, failure).join()));
  // Of a test that no file declares nobody can tell whose second run it is in: all of them run again, or none.
  const areTold = run.results.every((result) => filesOf(run.job, result).length === 1);
  const files = areTold ? run.job.files.filter((file) => failed.has(file)) : run.job.files;
  return { count: failed.size, files: failed.size === 0 ? [] : files };
}

/** Files to run once more, each alone: all that failed, unless those are so many that chance is no explanation. */
export function filesToRunAgain(runs: readonly JobRun[]): string[] {
  const failed = runs.map(failedOf);
  const count = failed.reduce((sum, one) => sum + one.count, 0);
  return count > mostRunAgain ? [] : failed.flatMap(({ files }) => files);
}

/** A failed test and the file that was run for it. */
export type Failure = { file: string; name: string; cause: string };

export type Verdict = {
  /** What counts: of a file that ran twice its second run. */
  results: TestResult[];
  failures: Failure[];
  /** First failures of files that passed when they ran once more. */
  passedLater: Failure[];
};

function failuresOf(runs: readonly JobRun[]): Failure[] {
  return runs.flatMap((run) =>
    failures(run).map((failure) => ({
      file: filesOf(run.job, failure).join(", "),
      name: failure.name,
      cause: failure.cause ?? "",
    })),
  );
}

/** What the tests came to, after a first run of all and a second run of those files that failed. */
export function judge(first: readonly JobRun[], second: readonly JobRun[]): Verdict {
  const again = new Set(second.flatMap(({ job }) => job.files));
  const stays = ({ job }: JobRun, result: TestResult): boolean =>
    !filesOf(job, result).every((file) => again.has(file));
  const kept = first.map((run) => ({ job: run.job, results: run.results.filter((result) => stays(run, result)) }));
  const counted = [...kept, ...second];
  const stillFailed = new Set(second.flatMap((run) => failedOf(run).files));
  const isMended = (run: JobRun, failure: TestResult): boolean =>
    filesOf(run.job, failure).every((file) => again.has(file) && !stillFailed.has(file));
  return {
    results: counted.flatMap(({ results }) => results),
    failures: failuresOf(counted),
    passedLater: failuresOf(
      first.map((run) => ({ job: run.job, results: failures(run).filter((failure) => isMended(run, failure)) })),
    ),
  };
}

/** The failures with their causes, and at the very end the counts, for people and for machines. */
export function describeVerdict({ results, failures, passedLater }: Verdict): string {
  const count = (outcome: TestResult["outcome"]): number =>
    results.filter((result) => result.outcome === outcome).length;
  return [
    ...section("passed only on the second run", passedLater),
    ...section("failed", failures),
    `${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped`,
  ].join("\n");
}

function section(title: string, failures: readonly Failure[]): string[] {
  if (failures.length === 0) return [];
  const described = failures.map(({ file, name, cause }) => `  ${file}\n    ${name}\n${indent(cause)}`);
  return [`${title}:`, ...described, ""];
}

const indent = (text: string): string => text.trimEnd().replaceAll(/^/gm, "      ");
