import { type FailureName, type FailureRow, failures, renderFailure } from "../../../services/relay/failures.ts";

/** What both formats say when they agree, else each of the two. */
const both = (inA: unknown, inB: unknown): string =>
  inA === inB ? String(inA) : `Format A: ${String(inA)}; Format B: ${String(inB)}`;

function cellsOf(name: FailureName): string[] {
  const row: FailureRow = failures[name];
  const failure = { name, detail: "…" };
  const [inA, inB] = [renderFailure(failure, "A"), renderFailure(failure, "B")];
  const waits = row.retryAfterSeconds ?? (name === "ip_rate" ? "the seconds to wait" : "none");
  return [
    `\`${name}\``,
    row.when,
    both(inA.status, inB.status),
    both(`\`${inA.message}\``, `\`${inB.message}\``),
    inA.code === "" ? "empty" : `\`${inA.code}\``,
    `\`${inB.type}\``,
    row.shouldRetry === false ? "none; `x-should-retry: false`" : String(waits),
  ];
}

/** Renders everything that the relay tells callers of failures as a Markdown table, in the order of failures.ts. */
export function renderErrorTable(): string {
  const rows = (Object.keys(failures) as FailureName[]).map((name) => `| ${cellsOf(name).join(" | ")} |`);
  return [
    "| name | when | status | message | `error.code` in Format A | `error.type` in Format B | Retry-After |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
}
