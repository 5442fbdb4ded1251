import type { Catalog, CheckCatalogResponse, Model, PriceRow } from "#proto/relay/v1/relay_pb.ts";
import type { UsageBucket } from "#shared/money/pricing.ts";
import { usd } from "../../html/amounts.ts";
import { table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { bucketNames, bucketsInUse } from "../../html/units.ts";
import { diffOf, type Insertion } from "./catalog-edit.ts";
import { marginWords } from "./installation-catalog.ts";

/** A catalog that may take the place of the one in force, and what a relay says of it. */
export type Candidate = {
  text: string;
  insertions: readonly Insertion[];
  inForce: Catalog;
  verdict: CheckCatalogResponse;
  /** The applied version in whose place it may come; undefined where a file is followed. */
  base?: bigint | undefined;
};

/** What a candidate would change: what is wrong, prices, and the new lines. */
export function previewOf(candidate: Candidate): Markup {
  const { text, verdict, inForce } = candidate;
  return html`<h2>What a relay says</h2>
    ${problemsOf(text, verdict)} ${verdict.catalog && changedPrices(inForce, verdict.catalog)}
    <h2>New lines</h2>
    <p>All other lines stay as they are.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="New lines of the file">
      <pre><code>${diffOf(candidate)}</code></pre>
    </div>`;
}

/** What a relay finds wrong in a text, by line, and what must be set before. */
export function problemsOf(text: string, { problems, unsetVariables }: CheckCatalogResponse): Markup {
  const lines = text.split("\n");
  const found = problems.map(
    ({ line, reason }) => html`<li>Line ${line}: ${reason} (<code>${(lines[line - 1] ?? "").trim()}</code>)</li>`,
  );
  return html`${
    found.length > 0
      ? html`<div class="problems">
          <p>Relays would refuse this file and keep the one in force.</p>
          <ul>
            ${found}
          </ul>
        </div>`
      : html`<p>The file is valid.</p>`
  }
  ${unsetNotice(unsetVariables)}`;
}

/** The price rows that another catalog would change. */
export function changedPrices(inForce: Catalog, candidate: Catalog): Markup {
  const head = ["Model", "Unit", "Price before", "Price after", "Cost and margin"];
  return table("Changed prices per 1,000,000 units", head, priceRows(inForce, candidate));
}

function unsetNotice(names: readonly string[]): Markup | undefined {
  if (names.length === 0) return undefined;
  return html`<div class="problems">
    <p>Set these variables for the relays first; until then they refuse the file:</p>
    <ul>
      ${names.map((name) => html`<li><code>${name}</code></li>`)}
    </ul>
  </div>`;
}

/** The price rows of models that are new or have other prices. */
function priceRows(inForce: Catalog, candidate: Catalog): Markup[] {
  const before = new Map(inForce.models.map((model) => [model.name, model]));
  return candidate.models.flatMap((model) => {
    const old = before.get(model.name);
    return model.prices.flatMap((row) => {
      const oldRow = old?.prices.find(({ condition }) => condition === row.condition);
      const buckets = bucketsInUse([row.unitPriceNanos, oldRow?.unitPriceNanos]);
      const isChanged = (bucket: UsageBucket): boolean => priceOf(row, bucket) !== priceOf(oldRow, bucket);
      return buckets
        .filter((bucket) => !old || isChanged(bucket))
        .map((bucket) => priceRow(model, row, oldRow, bucket));
    });
  });
}

const priceOf = (row: PriceRow | undefined, bucket: UsageBucket): bigint => row?.unitPriceNanos?.[bucket] ?? 0n;

function priceRow(model: Model, row: PriceRow, oldRow: PriceRow | undefined, bucket: UsageBucket): Markup {
  const price = priceOf(row, bucket);
  const costs = model.routes.map(({ upstream, unitCostNanos }) => {
    const cost = unitCostNanos?.[bucket] ?? 0n;
    const words = cost > 0n ? html`${usd(cost)}${marginWords(price, cost)}` : "no cost in the catalog";
    return html`<li>${upstream}: ${words}</li>`;
  });
  return html`<tr>
    <th scope="row">${model.name}${row.condition !== "" && html`, ${row.condition}`}</th>
    <td>${bucketNames[bucket]}</td>
    <td>${oldRow ? usd(priceOf(oldRow, bucket)) : "new"}</td>
    <td>${usd(price)}</td>
    <td>
      <ul class="values">
        ${costs}
      </ul>
    </td>
  </tr>`;
}
