import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";
import type { Logger } from "#shared/log.ts";
import { buildModels, type Model } from "./catalog-models.ts";
import { catalogSchema, type CatalogBuild, type CatalogProblem, type CatalogSource } from "./catalog-schema.ts";
import { buildUpstreams, type Upstream } from "./catalog-upstreams.ts";
import { followFiles, type Followed } from "./follow-files.ts";
import { changedPrices, rememberPrices, type PriceVersions } from "./price-versions.ts";

export type Catalog = {
  models: Map<string, Model>;
  /** Whether the service is closed to every call. */
  isMaintenance: boolean;
};

/** A catalog that cannot be used; the message has one `file:line: reason` per line. */
export class CatalogError extends Error {}

const validate = new Ajv({ coerceTypes: true, useDefaults: true, allErrors: true }).compile<CatalogSource>(
  catalogSchema,
);

/** Line of the value at `path`, or of the nearest value above it that stands in the file. */
function lineOf(document: Document, lines: LineCounter, path: (string | number)[]): number {
  let node: unknown = document.contents;
  let offset = 0;
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(
        (item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(step),
      );
      if (!pair) break;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      offset = (node as Node | undefined)?.range?.[0] ?? offset;
    } else break;
  }
  return lines.linePos(offset).line;
}

function schemaProblems(): CatalogProblem[] {
  const problems = (validate.errors ?? []).filter(({ keyword }) => keyword !== "anyOf");
  return problems.map(({ instancePath, message, params }) => {
    const path = instancePath
      .split("/")
      .slice(1)
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const extra = params["additionalProperty"] as string | undefined;
    if (extra === undefined) return { path, reason: `${path.at(-1) ?? "the catalog"} ${message ?? "is wrong"}` };
    return { path: [...path, extra], reason: `${extra} is not a known field` };
  });
}

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
  const lines = new LineCounter();
  // Every scalar stays text, so that a price is read to its last decimal and never passes through a float.
  const document = parseDocument(text, { lineCounter: lines, schema: "failsafe" });
  const raise = (problems: { line: number; reason: string }[]): never => {
    throw new CatalogError(problems.map(({ line, reason }) => `${file}:${line}: ${reason}`).join("\n"));
  };
  if (document.errors.length > 0) {
    raise(
      document.errors.map(({ linePos, message }) => ({
        line: linePos?.[0].line ?? 1,
        reason: message.split(" at line")[0] ?? message,
      })),
    );
  }
  const locate = ({ path, reason }: CatalogProblem) => ({ line: lineOf(document, lines, path), reason });
  let source: unknown;
  try {
    source = document.toJS();
  } catch (error) {
    // An alias without its anchor, or too many of them.
    return raise([{ line: 1, reason: error instanceof Error ? error.message : String(error) }]);
  }
  if (!validate(source)) return raise(schemaProblems().map(locate));
  const build: CatalogBuild = { source, environment, problems: [] };
  const models = buildModels(build, buildUpstreams(build));
  build.problems.push(...changedPrices(models.values(), known));
  if (build.problems.length > 0) raise(build.problems.map(locate));
  return { models, isMaintenance: source.maintenance };
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
