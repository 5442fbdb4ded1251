import { readFileSync, unwatchFile, watchFile } from "node:fs";
import { Ajv } from "ajv";
import type { Static } from "typebox";
import { isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";
import type { Logger } from "#shared/log.ts";
import { parseUsd } from "#shared/money.ts";
import { usageBuckets, type Units } from "#shared/pricing.ts";
import { catalogNameOf, catalogSchema } from "./catalog-schema.ts";
import type { DialectName } from "./dialects/dialect.ts";

export type Upstream = {
  name: string;
  baseUrl: URL;
  dialects: DialectName[];
  credential: string;
  connectTimeoutMs: number;
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
  maxConnections: number;
};

export type Model = {
  id: string;
  ownedBy: string;
  createdAtSeconds: number;
  /** Where the model runs, in the order in which the places are tried. */
  routes: { upstream: Upstream; model: string }[];
  contextTokens: number;
  maxOutputTokens: number;
  reserveOutputTokens: number;
  priceVersion: string;
  /** Nano-USD per 1,000,000 units; every bucket of tokens has one. */
  prices: Units;
};

export type Catalog = { models: Map<string, Model> };

/** A catalog that cannot be used; the message has one `file:line: reason` per line. */
export class CatalogError extends Error {}

type Source = Static<typeof catalogSchema>;
type Problem = { path: (string | number)[]; reason: string };

const validate = new Ajv({ coerceTypes: true, useDefaults: true, allErrors: true }).compile<Source>(catalogSchema);

// A bucket without a price of its own is charged as the bucket it belongs to, so that no token is ever free.
const fallbackBuckets = {
  cacheReadTokens: "inputTokens",
  cacheWrite5mTokens: "inputTokens",
  cacheWrite1hTokens: "cacheWrite5mTokens",
  reasoningTokens: "outputTokens",
  audioInputTokens: "inputTokens",
  audioOutputTokens: "outputTokens",
  imageInputTokens: "inputTokens",
  imageOutputTokens: "outputTokens",
} as const;

function readPrices(price: Record<string, string | undefined>): Units {
  const prices: Units = {};
  for (const bucket of usageBuckets) {
    const text = price[catalogNameOf(bucket)];
    if (text !== undefined) prices[bucket] = parseUsd(text);
  }
  for (const [bucket, fallback] of Object.entries(fallbackBuckets)) {
    const inherited = prices[fallback];
    if (inherited !== undefined) prices[bucket as keyof typeof fallbackBuckets] ??= inherited;
  }
  return prices;
}

function priceProblems(id: string, prices: Units): Problem[] {
  const missing = (["inputTokens", "outputTokens"] as const).filter((bucket) => prices[bucket] === undefined);
  const zero = usageBuckets.filter((bucket) => prices[bucket] === 0n && !missing.some((name) => name === bucket));
  const path = ["models", id, "price"];
  return [
    ...missing.map((bucket) => ({ path, reason: `${catalogNameOf(bucket)} has no price` })),
    ...zero.map((bucket) => ({
      path: [...path, catalogNameOf(bucket)],
      reason: `${catalogNameOf(bucket)} would be served for nothing: a price of 0 is refused`,
    })),
  ];
}

function readCredential(source: Source["upstreams"][string]["credential"], environment: NodeJS.ProcessEnv): string {
  if ("env" in source) {
    const value = environment[source.env];
    if (!value) throw new Error(`the variable ${source.env} is not set`);
    return value;
  }
  const value = readFileSync(source.file, "utf8").trim();
  if (value === "") throw new Error(`the file ${source.file} is empty`);
  return value;
}

type Build = { source: Source; environment: NodeJS.ProcessEnv; problems: Problem[] };

function buildUpstreams({ source, environment, problems }: Build): Map<string, Upstream> {
  const upstreams = new Map<string, Upstream>();
  for (const [name, entry] of Object.entries(source.upstreams)) {
    try {
      upstreams.set(name, {
        name,
        baseUrl: new URL(entry.base_url),
        dialects: entry.dialects,
        credential: readCredential(entry.credential, environment),
        connectTimeoutMs: entry.connect_timeout_ms,
        firstByteTimeoutMs: entry.first_byte_timeout_ms,
        idleTimeoutMs: entry.idle_timeout_ms,
        maxConnections: entry.max_connections,
      });
    } catch (error) {
      problems.push({ path: ["upstreams", name], reason: error instanceof Error ? error.message : String(error) });
    }
  }
  return upstreams;
}

function buildModels({ source, problems }: Build, upstreams: Map<string, Upstream>): Map<string, Model> {
  const models = new Map<string, Model>();
  for (const [id, entry] of Object.entries(source.models)) {
    const prices = readPrices(entry.price);
    problems.push(...priceProblems(id, prices));
    const routes = entry.upstreams.flatMap(({ name, model = id }, index) => {
      const upstream = upstreams.get(name);
      if (upstream) return [{ upstream, model }];
      if (Object.hasOwn(source.upstreams, name)) return [];
      problems.push({ path: ["models", id, "upstreams", index, "name"], reason: `there is no upstream ${name}` });
      return [];
    });
    models.set(id, {
      id,
      ownedBy: entry.owned_by,
      createdAtSeconds: entry.created,
      routes,
      contextTokens: entry.context_tokens,
      maxOutputTokens: entry.max_output_tokens,
      reserveOutputTokens: Math.min(entry.reserve_output_tokens, entry.max_output_tokens),
      priceVersion: entry.price.version,
      prices,
    });
  }
  return models;
}

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

function schemaProblems(): Problem[] {
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
 * read here, so that a missing one is found before a caller needs it; their values are never in a message.
 */
export function parseCatalog(text: string, file: string, environment: NodeJS.ProcessEnv): Catalog {
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
  const locate = ({ path, reason }: Problem) => ({ line: lineOf(document, lines, path), reason });
  let source: unknown;
  try {
    source = document.toJS();
  } catch (error) {
    // An alias without its anchor, or too many of them.
    return raise([{ line: 1, reason: error instanceof Error ? error.message : String(error) }]);
  }
  if (!validate(source)) return raise(schemaProblems().map(locate));
  const build: Build = { source, environment, problems: [] };
  const models = buildModels(build, buildUpstreams(build));
  if (build.problems.length > 0) raise(build.problems.map(locate));
  return { models };
}

/** A catalog that follows its file. */
export type LiveCatalog = Disposable & { current: () => Catalog; isStale: () => boolean };

const watchIntervalMs = 1_000;

/**
 * Reads the catalog file and follows its changes without a restart. A first file that cannot be used throws a
 * CatalogError; a later one is refused in the log and the last good one stays in force.
 */
export function followCatalog(file: string, environment: NodeJS.ProcessEnv, log: Logger): LiveCatalog {
  let catalog = parseCatalog(readFileSync(file, "utf8"), file, environment);
  let isStale = false;
  const reload = (): void => {
    try {
      catalog = parseCatalog(readFileSync(file, "utf8"), file, environment);
      isStale = false;
      log.info({ models: catalog.models.size }, "catalog reloaded");
    } catch (error) {
      isStale = true;
      log.error(
        { problems: error instanceof Error ? error.message.split("\n") : error },
        "catalog refused, the last good one stays",
      );
    }
  };
  // Polling, because a ConfigMap is replaced by renaming a symbolic link, which file events do not follow.
  watchFile(file, { interval: watchIntervalMs, persistent: false }, reload);
  return {
    current: () => catalog,
    isStale: () => isStale,
    [Symbol.dispose]: () => unwatchFile(file, reload),
  };
}
