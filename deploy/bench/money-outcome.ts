import { renderBars, type Bar } from "./bars.ts";
import { spreadOf, type Spread } from "./statistics.ts";
import { formatSpread, renderTable } from "./table.ts";
import { renderVariants, type VariantSummary, type VariantWindow } from "./variants.ts";

/** How many rounds to measure; `say` hears of progress. */
export type MoneyPlan = { rounds: number; say: (text: string) => void };

/** A figure that is only told. */
type Figure = { what: string; measured: Spread };

/** What measuring one kind of work came to. */
export type MoneyOutcome = {
  title: string;
  unit: string;
  windows: VariantWindow[];
  variants: VariantSummary[];
  bars: Bar[];
  /** What is neither a speed nor CPU. */
  figures?: Figure[];
  /** What was refused, failed or left wrong books; empty when every unit of work is accounted for. */
  complaints: string[];
};

/** Tables, verdicts and complaints, as text. */
export function renderMoney(outcomes: MoneyOutcome[]): string {
  const tables = outcomes.map(({ title, unit, variants }) => renderVariants(title, unit, variants));
  const bars = outcomes.flatMap((outcome) => outcome.bars);
  const figures = outcomes.flatMap((outcome) => outcome.figures ?? []);
  const complaints = outcomes.flatMap((outcome) => outcome.complaints);
  const verdicts = [
    ...(figures.length === 0 ? [] : [renderFigures(figures)]),
    ...(bars.length === 0 ? [] : [renderBars(bars)]),
  ];
  return [...tables, ...verdicts, renderOthers(outcomes), renderBooks(complaints)].join("\n\n");
}

function renderFigures(figures: Figure[]): string {
  const rows = figures.map(({ what, measured }) => [what, formatSpread(measured)]);
  return renderTable(["figure", "measured"], rows);
}

function renderBooks(complaints: string[]): string {
  if (complaints.length === 0) return "books: right";
  return ["!!! THE BOOKS ARE WRONG; the figures are not to be trusted:", ...complaints].join("\n  ");
}

function renderOthers(outcomes: MoneyOutcome[]): string {
  const shares = outcomes.flatMap(({ windows }) => windows.map(({ othersPercent }) => othersPercent));
  return `used by other processes meanwhile, in percent of the machine: ${formatSpread(spreadOf(shares))}`;
}
