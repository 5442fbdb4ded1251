import { inspect } from "node:util";
import type { TestEvent } from "node:test/reporters";

/** What became of one test. Its name is full: the titles of its suites and its own, parted by " > ". */
export type TestResult = {
  name: string;
  /** The file whose source declares it. */
  file: string;
  outcome: "passed" | "failed" | "skipped";
  /** Why it failed. */
  cause?: string;
};

type Ended = Extract<TestEvent, { type: "test:pass" | "test:fail" }>["data"];

/** Reads the events of one process of tests, one after the other, and gives the results when it has ended. */
export type ResultReader = { take: (event: TestEvent) => void; results: () => TestResult[] };

/** A test that is marked as not done yet (todo) has proven nothing, whatever the runner calls it: it is skipped. */
function outcomeOf(type: TestEvent["type"], { skip, todo }: Ended): TestResult["outcome"] {
  if (skip !== undefined || todo !== undefined) return "skipped";
  return type === "test:pass" ? "passed" : "failed";
}

/** A suite counts for its tests, and for itself only when something beside them failed: a hook of it, say. */
function counts(type: TestEvent["type"], { details }: Ended): boolean {
  if (type === "test:fail") return failureOf(details)?.failureType !== "subtestsFailed";
  return details.type !== "suite";
}

function failureOf(details: Ended["details"]): { failureType?: string; cause?: unknown } | undefined {
  return "error" in details ? (details.error as { failureType?: string; cause?: unknown }) : undefined;
}

function causeOf(details: Ended["details"]): string {
  const error = failureOf(details);
  const cause = error?.cause ?? error;
  return typeof cause === "string" ? cause : inspect(cause, { depth: 4 });
}

function keepLast(lines: string[], line: string): void {
  lines.push(line);
  if (lines.length > 30) lines.shift();
}

export function resultReader(entryFile: string): ResultReader {
  const titles: string[] = [];
  const results: TestResult[] = [];
  const errorOutput: string[] = [];
  let isProcessBad = false;
  const add = (type: TestEvent["type"], data: Ended): void => {
    const name = [...titles.slice(0, data.nesting), data.name].join(" > ");
    const outcome = outcomeOf(type, data);
    // A process that could not even load its file says why on its standard error, and nowhere else.
    const cause = data.name === entryFile ? errorOutput.join("") || causeOf(data.details) : causeOf(data.details);
    results.push({ name, file: data.file ?? entryFile, outcome, ...(outcome === "failed" && { cause }) });
  };
  return {
    take: ({ type, data }) => {
      if (type === "test:stderr") keepLast(errorOutput, data.message);
      if (type === "test:start") titles.splice(data.nesting, titles.length, data.name);
      if ((type === "test:pass" || type === "test:fail") && counts(type, data)) add(type, data);
      if (type === "test:summary" && data.file === undefined) isProcessBad = !data.success;
    },
    results: () => {
      // A process can fail behind its last test, which fails no test.
      const isTold = results.some(({ outcome }) => outcome === "failed");
      const cause = "its process failed, but none of its tests did";
      return isProcessBad && !isTold
        ? [...results, { name: entryFile, file: entryFile, outcome: "failed", cause }]
        : results;
    },
  };
}
