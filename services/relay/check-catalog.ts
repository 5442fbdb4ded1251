import { readFileSync } from "node:fs";
import { formatUsd } from "#shared/money.ts";
import { usageBuckets } from "#shared/pricing.ts";
import { catalogNameOf } from "./catalog-schema.ts";
import { CatalogError, parseCatalog } from "./catalog.ts";
import type { Model } from "./catalog-models.ts";

/** One line per model: where it runs and what it costs, in USD per 1,000,000 units. */
function describe(model: Model): string {
  const places = model.routes.map(({ upstream }) => upstream.name).join(", ");
  const prices = usageBuckets.flatMap((bucket) => {
    const price = model.prices[bucket];
    return price === undefined ? [] : [`${catalogNameOf(bucket)} ${formatUsd(price).replace(/\.?0+$/, "")}`];
  });
  return `${model.id} at ${places}, price ${model.priceVersion}: ${prices.join(", ")}`;
}

/** `npm run catalog -- FILE`: prints the models with their prices, or every problem with its line and exit code 1. */
function main(file: string | undefined): number {
  if (file === undefined) {
    process.stderr.write("name the catalog file\n");
    return 2;
  }
  try {
    const catalog = parseCatalog(readFileSync(file, "utf8"), file, process.env);
    process.stdout.write(`${[...catalog.models.values()].map(describe).join("\n")}\n`);
    return 0;
  } catch (error) {
    process.stderr.write(
      `${error instanceof CatalogError || error instanceof Error ? error.message : String(error)}\n`,
    );
    return 1;
  }
}

process.exitCode = main(process.argv[2]);
