import { formatUsd } from "#shared/money/money.ts";
import { tableOf } from "./controls.ts";
import { html, type Markup } from "./html.ts";

type ChartTable = {
  caption: string;
  head: readonly string[];
  rows: readonly ChartRow[];
  /** The cells of a last row with sums, beside its heading. */
  totals?: readonly (string | Markup)[];
};

type ChartRow = {
  label: string;
  /** What the label leads to. */
  href?: string;
  /** How high its bar is. */
  nanos: bigint;
  /** Whether it is in the chart alone: the table has no line without use. */
  isInChartAlone?: boolean;
  cells: readonly (string | Markup)[];
};

/** A table of amounts, of which script draws a chart; its place in the page is right before the table. */
export function chartTable({ caption, head, rows, totals }: ChartTable): Markup {
  return tableOf(
    { caption, head, attributes: html` class="figures" data-chart="USD"` },
    html`<tbody>
        ${rows.map(
          ({ label, href, nanos, cells, isInChartAlone }) =>
            html`<tr data-value="${formatUsd(nanos)}" ${isInChartAlone && html` hidden`}>
              <th scope="row">${href === undefined ? label : html`<a href="${href}">${label}</a>`}</th>
              ${cellsOf(cells)}
            </tr>`,
        )}
      </tbody>
      ${
        totals &&
        html`<tfoot>
          <tr>
            <th scope="row">Total</th>
            ${cellsOf(totals)}
          </tr>
        </tfoot>`
      }`,
  );
}

const cellsOf = (cells: readonly (string | Markup)[]): Markup[] => cells.map((cell) => html`<td>${cell}</td>`);
