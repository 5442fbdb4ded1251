import { readFileSync } from "node:fs";
import type { Restriction } from "#shared/catalog/restrict.ts";
import { createRestrict } from "#shared/catalog/restrict.ts";
import { openFileCatalog, type CatalogKeeper, type OpenCatalog } from "#shared/catalog/last-good.ts";
import { followStoredCatalog, type AppliedSource } from "#shared/catalog/stored.ts";
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
export type RelayCatalog = OpenCatalog<Catalog> & {
  /** What an applied catalog may not have; undefined where the file is followed. */
  restriction: () => Restriction | undefined;
};

/** Begins with the catalog of the configured source and follows it. */
export async function openCatalog(deps: OpenCatalogDeps): Promise<RelayCatalog> {
  return deps.config.CATALOG_SOURCE === "stored" ? await openStored(deps) : await openFile(deps);
}

async function openFile({ config, keeper, environment, onReplaced, log }: OpenCatalogDeps): Promise<RelayCatalog> {
  const path = config.CATALOG_FILE;
  const open = (fallback?: string): CatalogFollower => followCatalog(path, environment, log, { onReplaced, fallback });
  const catalog = await openFileCatalog(open, keeper, { path, environment, log });
  return { ...catalog, restriction: () => undefined };
}

async function openStored({ config, keeper, environment, onReplaced, log }: OpenCatalogDeps): Promise<RelayCatalog> {
  const readFile = (): string => readFileSync(config.CATALOG_FILE, "utf8");
  const restriction = (): Restriction => ({ fileText: readFile(), ownVariables: Object.keys(variables.properties) });
  const take = catalogTaker("catalog", environment);
  const tellReplaced = (catalog: Catalog): void => {
    onReplaced(catalog);
    log.info({ models: catalog.models.size, maintenance: catalog.isMaintenance }, "applied catalog taken");
  };
  const catalog = await followStoredCatalog({
    source: keeper,
    readFile,
    takeFile: (text) => take(text),
    takeApplied: (text) => take(text, createRestrict(restriction())),
    onReplaced: tellReplaced,
    log,
  });
  return { ...catalog, restriction };
}
