import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Restriction } from "#shared/catalog/restrict.ts";
import { createRestrict } from "#shared/catalog/restrict.ts";
import { createKeeping, startCatalog, type CatalogKeeper } from "#shared/catalog/last-good.ts";
import { followStoredCatalog, type AppliedSource, type StoredCatalog } from "#shared/catalog/stored.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { variables, type Config } from "../config.ts";
import { catalogTaker, followCatalog, type Catalog, type CatalogFollower } from "./catalog.ts";

export type OpenCatalogDeps = {
  config: Pick<Config, "CATALOG_FILE" | "CATALOG_SOURCE">;
  keeper: CatalogKeeper & AppliedSource;
  environment: NodeJS.ProcessEnv;
  onReplaced: (catalog: Catalog) => void;
  log: Logger;
};

/** The catalog of a running relay. */
export type OpenCatalog = Pick<CatalogFollower, "current" | "isStale" | "file"> &
  AsyncDisposable & {
    /** What an applied catalog may not have; undefined where the file is followed. */
    restriction: () => Restriction | undefined;
  };

/** Begins with the catalog of the configured source and follows it. */
export async function openCatalog(deps: OpenCatalogDeps): Promise<OpenCatalog> {
  return deps.config.CATALOG_SOURCE === "stored" ? await openStored(deps) : await openFile(deps);
}

async function openFile({ config, keeper, environment, onReplaced, log }: OpenCatalogDeps): Promise<OpenCatalog> {
  await using resources = new AsyncDisposableStack();
  const readText = (): string => readFileSync(config.CATALOG_FILE, "utf8");
  const open = (fallback?: string): CatalogFollower =>
    followCatalog(config.CATALOG_FILE, environment, log, { onReplaced, fallback });
  const catalog = resources.use(await startCatalog(open, keeper, { readText, environment, log }));
  resources.use(every(5_000, createKeeping(keeper, catalog, { takenBy: hostname(), environment, log }), log));
  return owning(catalog, () => undefined, resources.move());
}

async function openStored({ config, keeper, environment, onReplaced, log }: OpenCatalogDeps): Promise<OpenCatalog> {
  await using resources = new AsyncDisposableStack();
  const readFile = (): string => readFileSync(config.CATALOG_FILE, "utf8");
  const restriction = (): Restriction => ({ fileText: readFile(), ownVariables: Object.keys(variables.properties) });
  const take = catalogTaker("catalog", environment);
  const tellReplaced = (catalog: Catalog): void => {
    onReplaced(catalog);
    log.info({ models: catalog.models.size, maintenance: catalog.isMaintenance }, "applied catalog taken");
  };
  const catalog: StoredCatalog<Catalog> = resources.use(
    await followStoredCatalog({
      source: keeper,
      readFile,
      takeFile: (text) => take(text),
      takeApplied: (text) => take(text, createRestrict(restriction())),
      onReplaced: tellReplaced,
      log,
    }),
  );
  return owning(catalog, restriction, resources.move());
}

const owning = (
  { current, isStale, file }: Pick<CatalogFollower, "current" | "isStale" | "file">,
  restriction: OpenCatalog["restriction"],
  owned: AsyncDisposableStack,
): OpenCatalog => ({
  current,
  isStale,
  file,
  restriction,
  [Symbol.asyncDispose]: () => owned.disposeAsync(),
});
