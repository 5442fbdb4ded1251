import { renderBars, type Bar } from "./bars.ts";
import { spreadOf } from "./statistics.ts";
import { formatSpread } from "./table.ts";
import { renderWays, type WaySummary, type WayWindow } from "./ways.ts";

/** How many rounds to measure; `say` hears of progress. */
export type MoneyPlan = { rounds: number; say: (text: string) => void };

/** What measuring one kind of work came to. */
export type MoneyOutcome = {
  title: string;
  unit: string;
  windows: WayWindow[];
  ways: WaySummary[];
  bars: Bar[];
  /** What was refused, failed or left wrong books; empty when every unit of work is accounted for. */
  complaints: string[];
};

/** Tables, verdicts and complaints, as text. */
export function renderMoney(outcomes: MoneyOutcome[]): string {
  const tables = outcomes.map(({ title, unit, ways }) => renderWays(title, unit, ways));
  const bars = renderBars(outcomes.flatMap((outcome) => outcome.bars));
  const complaints = outcomes.flatMap((outcome) => outcome.complaints);
  return [...tables, bars, renderOthers(outcomes), renderBooks(complaints)].join("\n\n");
}

function renderBooks(complaints: string[]): string {
  if (complaints.length === 0) return "books: right";
  return ["!!! THE BOOKS ARE WRONG; the figures are not to be trusted:", ...complaints].join("\n  ");
}

function renderOthers(outcomes: MoneyOutcome[]): string {
  const shares = outcomes.flatMap(({ windows }) => windows.map(({ othersPercent }) => othersPercent));
  return `used by other processes meanwhile, in percent of the machine: ${formatSpread(spreadOf(shares))}`;
}
