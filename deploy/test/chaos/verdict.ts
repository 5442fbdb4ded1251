import { formatUsd } from "#shared/money/money.ts";
import type { Loss, Report } from "../e2e/checker.ts";
import { emptyReport, formatReport } from "../e2e/checker.ts";

/** What a part of a run came to. */
export type Verdict = {
  name: string;
  /** Processes that were killed with SIGKILL. */
  kills: number;
  /** Other harm that was done: links cut, stores emptied, processes paused. */
  faults: number;
  report: Report;
};

const shownProblems = 20;

/** The sum of several verdicts. */
export function sumOf(name: string, verdicts: readonly Verdict[]): Verdict {
  const sum: Verdict = { name, kills: 0, faults: 0, report: emptyReport() };
  for (const { kills, faults, report } of verdicts) {
    sum.kills += kills;
    sum.faults += faults;
    add(sum.report, report);
  }
  return sum;
}

function add(sum: Report, report: Report): void {
  sum.calls += report.calls;
  sum.served += report.served;
  sum.booked += report.booked;
  sum.missing += report.missing;
  sum.double += report.double;
  sum.overcharged += report.overcharged;
  sum.overspentNanos += report.overspentNanos;
  sum.broken += report.broken;
  sum.forgoneNanos += report.forgoneNanos;
  sum.losses.push(...report.losses);
  sum.problems.push(...report.problems);
}

/** Whether every bar is met: nothing missing, nothing double, nothing else wrong. */
export function isRight({ report }: Verdict): boolean {
  return report.missing === 0 && report.double === 0 && report.problems.length === 0;
}

/** A verdict in lines of text; the losses one by one when they are asked for. */
export function formatVerdict(verdict: Verdict, areLossesListed: boolean): string {
  const { name, kills, faults, report } = verdict;
  const { losses, problems } = report;
  const counts = `kills ${kills}, faults ${faults}, ${formatReport(report)}`;
  return [
    `${isRight(verdict) ? "right" : "WRONG"}  ${name}: ${counts}${describeLosses(losses)}`,
    ...(areLossesListed ? losses.map(formatLoss) : []),
    ...problems.slice(0, shownProblems).map((problem) => `  !!! ${problem}`),
    ...(problems.length > shownProblems ? [`  !!! and ${problems.length - shownProblems} more`] : []),
  ].join("\n");
}

function describeLosses(losses: readonly Loss[]): string {
  if (losses.length === 0) return "";
  const nanos = losses.reduce((sum, loss) => sum + loss.nanos, 0n);
  return `; ${losses.length} calls lost ${formatUsd(nanos)} USD with their relays`;
}

function formatLoss({ rid, nanos, boundNanos }: Loss): string {
  return `  lost ${rid}: ${formatUsd(nanos)} USD of at most ${formatUsd(boundNanos)}`;
}
