import { usageBuckets } from "#shared/money/pricing.ts";
import type { Model } from "./models.ts";
import type { CatalogProblem } from "#shared/catalog/document.ts";

/** The prices that were in force, by model and version; see rememberPrices. */
export type PriceVersions = Map<string, string>;

// Some hundred models with a dozen variants each, many catalogs long.
const keptRows = 20_000;

const identityOf = ({ id, priceVersion }: Model): string => JSON.stringify([id, priceVersion]);

const textOf = ({ prices }: Model): string => usageBuckets.map((bucket) => prices[bucket] ?? "").join();

/** Every price row of a model with its place in the catalog: its own and those of its variants. */
function rowsOf(model: Model): { row: Model; path: string[] }[] {
  const path = ["models", model.id, "price"];
  const variants = model.variants.map(({ model: row }, index) => ({
    row,
    path: [...path, "variants", String(index)],
  }));
  return [{ row: model, path }, ...variants];
}

/**
 * Price rows are immutable: what is wrong with models in which a version has other prices than it had before, or in
 * which two rows have one version.
 */
export function changedPrices(models: Iterable<Model>, known: PriceVersions): CatalogProblem[] {
  const problems: CatalogProblem[] = [];
  for (const model of models) {
    const seen = new Set<string>();
    for (const { row, path } of rowsOf(model)) {
      const { id, priceVersion } = row;
      if (seen.has(priceVersion)) {
        problems.push({ path, reason: `${id} has version ${priceVersion} twice: conditions of variants must differ` });
      }
      seen.add(priceVersion);
      const before = known.get(identityOf(row));
      if (before === undefined || before === textOf(row)) continue;
      const reason = `${id} has other prices than before in version ${priceVersion}: give new prices a new version`;
      problems.push({ path, reason });
    }
  }
  return problems;
}

/** Keeps the rows of a catalog that is taken; the longest unseen ones beyond 20,000 are forgotten. */
export function rememberPrices(models: Iterable<Model>, known: PriceVersions): void {
  for (const model of models) {
    for (const { row } of rowsOf(model)) {
      known.delete(identityOf(row));
      known.set(identityOf(row), textOf(row));
    }
  }
  for (const identity of known.keys()) {
    if (known.size <= keptRows) break;
    known.delete(identity);
  }
}
