import { type CatalogProblem, compileSchema, readCatalog } from "#shared/catalog/document.ts";
import { buildUpstreams, readNamedFrom, type ReadNamed, type Upstream } from "#shared/catalog/upstreams.ts";
import type { Restrict } from "#shared/catalog/restrict.ts";
import { followCatalogFile, type FollowedCatalog, type FollowOptions } from "#shared/catalog/follow.ts";
import type { Followed } from "#shared/process/follow-files.ts";
import type { Logger } from "#shared/process/log.ts";
import { buildModels, type Model } from "./models.ts";
import { catalogSchema, type CatalogSource } from "./schema.ts";
import { changedPrices, rememberPrices, type PriceVersions } from "./price-versions.ts";

export type Catalog = {
  models: Map<string, Model>;
  /** All that the file names, whether or not a model runs there. */
  upstreams: Upstream[];
  /** Whether the service is closed to every call. */
  isMaintenance: boolean;
};

const validate = compileSchema<CatalogSource>(catalogSchema);

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
  return read(text, file, { readNamed: readNamedFrom(environment), known });
}

/**
 * Reads a catalog as `parseCatalog` does, where it need not run: secrets and certificates that are not there are no
 * problem, but told in `absent`.
 */
export function checkCatalog(
  text: string,
  file: string,
  environment: NodeJS.ProcessEnv,
): { catalog: Catalog; absent: string[] } {
  const absent = new Set<string>();
  const readNamed = readNamedFrom(environment);
  const readIfThere: ReadNamed = (source) => {
    try {
      return readNamed(source);
    } catch (error) {
      absent.add(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  };
  const catalog = read(text, file, { readNamed: readIfThere, known: new Map() });
  return { catalog, absent: [...absent] };
}

/**
 * Reads a catalog as one that would take the place of another, whose price rows are in `known`. Nothing that it names
 * is read, so that it cannot be used to read the files of a process: of variables it is told which are not `set`.
 */
export function checkCandidate(
  text: string,
  set: ReadonlySet<string>,
  { known, restrict }: { known: PriceVersions; restrict?: Restrict | undefined },
): { catalog: Catalog; unset: string[] } {
  const unset = new Set<string>();
  const lookUp: ReadNamed = (source) => {
    if ("env" in source && !set.has(source.env)) unset.add(source.env);
    return undefined;
  };
  const catalog = read(text, "catalog", { readNamed: lookUp, known, restrict });
  return { catalog, unset: [...unset] };
}

type ReadRules = { readNamed: ReadNamed; known: PriceVersions; restrict?: Restrict | undefined };

function read(text: string, file: string, { readNamed, known, restrict }: ReadRules): Catalog {
  const build = (source: CatalogSource, problems: CatalogProblem[]): Catalog => {
    if (restrict) problems.push(...restrict(source.upstreams));
    // What may not be named is not read either.
    if (problems.length > 0) return { models: new Map(), upstreams: [], isMaintenance: false };
    const upstreams = buildUpstreams(source.upstreams, readNamed, problems);
    const models = buildModels({ source, problems }, upstreams);
    problems.push(...changedPrices(models.values(), known));
    return { models, upstreams: [...upstreams.values()], isMaintenance: source.maintenance };
  };
  return readCatalog(text, file, { validate, build });
}

/** Upstreams on which a model runs. */
export function upstreamsOf({ models }: Catalog): Upstream[] {
  return [...new Set([...models.values()].flatMap(({ routes }) => routes.map(({ upstream }) => upstream)))];
}

/** A catalog that follows its file, or those that are applied. */
export type LiveCatalog = Pick<Followed<Catalog>, "current" | "isStale">;

/** Makes catalogs of texts as `parseCatalog` does; a price version keeps the prices that it had in any one before. */
export function catalogTaker(
  file: string,
  environment: NodeJS.ProcessEnv,
): (text: string, restrict?: Restrict) => Catalog {
  const known: PriceVersions = new Map();
  return (text, restrict) => {
    const catalog = read(text, file, { readNamed: readNamedFrom(environment), known, restrict });
    rememberPrices(catalog.models.values(), known);
    return catalog;
  };
}

/** A catalog that follows its file, and what became of that. */
export type CatalogFollower = FollowedCatalog<Catalog>;

/**
 * Reads the catalog file and follows its changes without a restart. A first file that cannot be used throws a
 * CatalogError, unless there is a `fallback`, the text of another; a later one is refused in the log and the last good
 * one stays in force, also where a price version has other prices than it had before. `onReplaced` gets each later one
 * that is taken.
 */
export function followCatalog(
  file: string,
  environment: NodeJS.ProcessEnv,
  log: Logger,
  { onReplaced, fallback }: FollowOptions<Catalog> = {},
): CatalogFollower {
  const take = catalogTaker(file, environment);
  const tellReplaced = (catalog: Catalog): void => {
    onReplaced?.(catalog);
    log.info({ models: catalog.models.size, maintenance: catalog.isMaintenance }, "catalog reloaded");
  };
  return followCatalogFile(file, (text) => take(text), log, { onReplaced: tellReplaced, fallback });
}
