import type { TestResult } from "./test-results.ts";

/** Test files that one process runs. Each but a batch of unit tests is alone in it. */
export type Job = { files: readonly string[] };

/** A job that has run. */
export type JobRun = { job: Job; results: readonly TestResult[] };

// A machine that stands still for a moment makes a test or two fail; a defect that fails so many files is none.
const mostRunAgain = 5;

const failures = ({ results }: JobRun): TestResult[] => results.filter(({ outcome }) => outcome === "failed");

/** The files of a job that a failure may be of: those it names, or all of them when it names another. */
function filesOf({ files }: Job, { file }: TestResult): readonly string[] {
  return files.includes(file) ? [file] : files;
}

/** Files with failures. */
export function failedFiles(runs: readonly JobRun[]): string[] {
  return [...new Set(runs.flatMap((run) => failures(run).flatMap((failure) => filesOf(run.job, failure))))];
}

/** Files to run once more, each alone: all that failed, unless those are so many that chance is no explanation. */
export function filesToRunAgain(runs: readonly JobRun[]): string[] {
  const files = failedFiles(runs);
  return files.length > mostRunAgain ? [] : files;
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
    failures(run).map((failure) => {
      const files = filesOf(run.job, failure);
      return {
        file: files.length === 1 ? (files[0] as string) : failure.file,
        name: failure.name,
        cause: failure.cause ?? "",
      };
    }),
  );
}

/** What the tests came to, after a first run of all and a second run of those files that failed. */
export function judge(first: readonly JobRun[], second: readonly JobRun[]): Verdict {
  const again = new Set(second.flatMap(({ job }) => job.files));
  const stays = ({ job }: JobRun, result: TestResult): boolean =>
    !filesOf(job, result).every((file) => again.has(file));
  const kept = first.map((run) => ({ job: run.job, results: run.results.filter((result) => stays(run, result)) }));
  const counted = [...kept, ...second];
  const stillFailed = new Set(failedFiles(second));
  return {
    results: counted.flatMap(({ results }) => results),
    failures: failuresOf(counted),
    passedLater: failuresOf(first).filter(({ file }) => again.has(file) && !stillFailed.has(file)),
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
