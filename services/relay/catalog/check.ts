import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { checkCatalog } from "./catalog.ts";
import { describeCatalog } from "./describe.ts";
import { importPrices } from "./import-prices.ts";

const usage = `catalog FILE
    prints the models of a catalog with their prices, or every problem with its line; secrets need not be here
catalog import FILE --provider NAME [--version V] [MODEL...]
    prints the provider's models of a public price list as a section for a catalog
`;

/** Prints the models with their prices, and beside them what the catalog names that is not here. */
function check(file: string): number {
  const { catalog, absent } = checkCatalog(readFileSync(file, "utf8"), file, process.env);
  process.stdout.write(describeCatalog(catalog));
  for (const words of absent) process.stderr.write(`not here: ${words}\n`);
  return 0;
}

/** Prints what is imported; 1 when something that was asked for is not among it. */
function importFrom(file: string, provider: string, version: string, models: string[]): number {
  const { yaml, problems } = importPrices(readFileSync(file, "utf8"), { provider, version, models });
  process.stdout.write(yaml);
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  return problems.length > 0 ? 1 : 0;
}

/** `npm run catalog`: 0 when all is well, 1 with the problems, 2 when it is not clear what is wanted. */
function main(given: string[]): number {
  const { values, positionals } = parseArgs({
    args: given,
    allowPositionals: true,
    options: { provider: { type: "string" }, version: { type: "string" } },
  });
  const [first, file, ...models] = positionals;
  const today = new Date().toISOString().slice(0, 10);
  const { provider, version = today } = values;
  if (first === "import" && file !== undefined && provider) return importFrom(file, provider, version, models);
  if (first !== undefined && first !== "import" && file === undefined) return check(first);
  process.stderr.write(usage);
  return 2;
}

try {
  process.exitCode = main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
