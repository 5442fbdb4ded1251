import type { Upstream } from "#shared/catalog/upstreams.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import type { Catalog } from "./catalog.ts";
import type { Model, Variant } from "./models.ts";
import { pricesFor, shortUsd, type PriceCondition, type PriceTraits } from "./prices.ts";
import { catalogNameOf } from "./schema.ts";

/** For which calls a price row holds, in words; empty for the model's own. */
export function conditionOf({ where, aboveInputTokens }: PriceCondition): string {
  const fields = Object.entries(where).map(([name, value]) => `${name} ${value}`);
  return [...fields, ...(aboveInputTokens < 0 ? [] : [`more than ${aboveInputTokens} input tokens`])].join(", ");
}

/** A call that just meets a condition. */
const traitsOf = ({ where, aboveInputTokens }: PriceCondition): PriceTraits => ({
  fields: where,
  inputTokens: aboveInputTokens + 1,
});

const shown = (nanos: bigint | undefined): string => (nanos === undefined ? "-" : shortUsd(nanos));

const difference = (price: bigint | undefined, cost: bigint | undefined): bigint | undefined =>
  price === undefined || cost === undefined ? undefined : price - cost;

/** Rows of cells as lines: the first column to the left, numbers to the right. */
function align(rows: string[][]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  "),
  );
}

/** One price row with what its calls cost the operator on each route that says so, and what is left between the two. */
function describeRow(row: Model, routes: Model["routes"], condition: PriceCondition): string[] {
  const costs = routes.flatMap(({ upstream, cost }) =>
    cost ? [{ name: upstream.name, prices: pricesFor(cost, () => traitsOf(condition)) }] : [],
  );
  const isNamed = (prices: Units, bucket: (typeof usageBuckets)[number]): boolean => prices[bucket] !== undefined;
  const buckets = usageBuckets.filter((name) => [row, ...costs].some(({ prices }) => isNamed(prices, name)));
  const head = ["", "price", ...costs.flatMap(({ name }) => [`cost at ${name}`, "margin"])];
  const lines = buckets.map((bucket) => {
    const price = row.prices[bucket];
    const ofRoutes = costs.flatMap(({ prices: { [bucket]: cost } }) => [shown(cost), shown(difference(price, cost))]);
    return [catalogNameOf(bucket), shown(price), ...ofRoutes];
  });
  const title = conditionOf(condition);
  return [`  ${row.priceVersion}${title && `: ${title}`}`, ...align([head, ...lines]).map((line) => `    ${line}`)];
}

/** The price rows of a model: its own, then those for particular calls. */
export function priceRowsOf(model: Model): Variant[] {
  return [{ where: {}, aboveInputTokens: -1, model }, ...model.variants];
}

function describeModel(model: Model): string[] {
  const places = model.routes.map(({ upstream, model: name }) =>
    name === model.id ? upstream.name : `${upstream.name} (${name})`,
  );
  const rows = priceRowsOf(model).map(({ model: row, ...condition }) => describeRow(row, model.routes, condition));
  return [`${model.id} at ${places.join(", ")}`, ...rows.flat()];
}

function describeOnCallerGone({ name, onCallerGone }: Upstream): string[] {
  if (onCallerGone.action === "abort") return [name, "abort"];
  const { timeoutMs, maxOutputTokens } = onCallerGone;
  return [name, `drain, at most ${timeoutMs} ms and ${maxOutputTokens} output tokens`];
}

/**
 * Every model of a catalog with its price rows, in USD per 1,000,000 units, and what becomes at each upstream of
 * answers whose callers leave, as plain aligned text.
 */
export function describeCatalog({ models, upstreams }: Catalog): string {
  const texts = [...models.values()].map((model) => describeModel(model).join("\n"));
  const gone = upstreams.map((upstream) => `  ${describeOnCallerGone(upstream).join(": ")}\n`);
  const section = gone.length > 0 ? `\nwhen a caller leaves\n${gone.join("")}` : "";
  return `USD per 1,000,000 units\n\n${texts.join("\n\n")}\n${section}`;
}
