import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { readCatalog, type CatalogProblem } from "#shared/catalog/document.ts";
import { buildUpstreams, type Upstream } from "#shared/catalog/upstreams.ts";
import { followFiles, type Followed } from "#shared/follow-files.ts";
import type { Logger } from "#shared/log.ts";
import { buildModels, type Model } from "./catalog-models.ts";
import { catalogSchema, type CatalogSource } from "./catalog-schema.ts";
import { changedPrices, rememberPrices, type PriceVersions } from "./price-versions.ts";

export type Catalog = {
  models: Map<string, Model>;
  /** Whether the service is closed to every call. */
  isMaintenance: boolean;
};

const validate = new Ajv({ coerceTypes: true, useDefaults: true, allErrors: true }).compile<CatalogSource>(
  catalogSchema,
);

/**
 * Reads a catalog from its text. Throws a CatalogError that names every problem with file and line. Credentials are
 * read here, so that a missing one is found before a caller needs it; their values are never in a message. A version
 * that has other prices than in `known` is a problem.
 */
export function parseCatalog(
  text: string,
  file: string,
  environment: NodeJS.ProcessEnv,
  known: PriceVersions = new Map(),
): Catalog {
  const build = (source: CatalogSource, problems: CatalogProblem[]): Catalog => {
    const models = buildModels({ source, problems }, buildUpstreams(source.upstreams, environment, problems));
    problems.push(...changedPrices(models.values(), known));
    return { models, isMaintenance: source.maintenance };
  };
  return readCatalog(text, file, { validate, build });
}

/** Upstreams on which a model runs. */
export function upstreamsOf({ models }: Catalog): Upstream[] {
  return [...new Set([...models.values()].flatMap(({ routes }) => routes.map(({ upstream }) => upstream)))];
}

/** A catalog that follows its file. */
export type LiveCatalog = Followed<Catalog>;

/**
 * Reads the catalog file and follows its changes without a restart. A first file that cannot be used throws a
 * CatalogError; a later one is refused in the log and the last good one stays in force, also where a price version has
 * other prices than it had before. `onReplaced` gets each later one that is taken.
 */
export function followCatalog(
  file: string,
  environment: NodeJS.ProcessEnv,
  log: Logger,
  onReplaced: (catalog: Catalog) => void = () => undefined,
): LiveCatalog {
  const known: PriceVersions = new Map();
  const read = (): Catalog => {
    const catalog = parseCatalog(readFileSync(file, "utf8"), file, environment, known);
    rememberPrices(catalog.models.values(), known);
    return catalog;
  };
  return followFiles([file], read, {
    onReplaced: (catalog) => {
      onReplaced(catalog);
      log.info({ models: catalog.models.size, maintenance: catalog.isMaintenance }, "catalog reloaded");
    },
    onRefused: (error) =>
      log.error(
        { problems: error instanceof Error ? error.message.split("\n") : error },
        "catalog refused, the last good one stays",
      ),
  });
}
