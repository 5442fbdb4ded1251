import { Ajv, type AnySchema, type ValidateFunction } from "ajv";
import { isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";

/** What is wrong at a place of the catalog. */
export type CatalogProblem = { path: (string | number)[]; reason: string };

/** The same where it stands in the file. */
export type LocatedProblem = { line: number; reason: string };

/** A catalog that cannot be used; the message has one `file:line: reason` per line. */
export class CatalogError extends Error {
  readonly problems: readonly LocatedProblem[];

  constructor(problems: readonly LocatedProblem[], file: string) {
    super(problems.map(({ line, reason }) => `${file}:${line}: ${reason}`).join("\n"));
    this.problems = problems;
  }
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

function schemaProblems(validate: ValidateFunction): CatalogProblem[] {
  const problems = (validate.errors ?? []).filter(({ keyword }) => keyword !== "anyOf" && keyword !== "if");
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
 * Makes a check of a catalog's documents, which also sets defaults. Its code is not optimized: it runs once for each
 * catalog that is loaded, and to optimize it takes as long as all the rest (150 → 75 ms of the relay's start). Nor is
 * the schema checked against the schema of schemas: it is typed.
 */
export const compileSchema = <Source>(schema: AnySchema): ValidateFunction<Source> =>
  new Ajv({
    allErrors: true,
    coerceTypes: true,
    useDefaults: true,
    validateSchema: false,
    meta: false,
    code: { optimize: false },
  }).compile<Source>(schema);

/** How the document of a catalog becomes what a service works with. */
export type CatalogReading<Source, Catalog> = {
  validate: ValidateFunction<Source>;
  /** Makes the catalog; what is wrong joins the problems. */
  build: (source: Source, problems: CatalogProblem[]) => Catalog;
};

/**
 * Reads a catalog from the text of `file`. Throws a CatalogError that names every problem with file and line: of the
 * YAML, else of the schema, else those that `build` found.
 */
export function readCatalog<Source, Catalog>(
  text: string,
  file: string,
  { validate, build }: CatalogReading<Source, Catalog>,
): Catalog {
  const lines = new LineCounter();
  // Every scalar stays text, so that a price is read to its last decimal and never passes through a float.
  const document = parseDocument(text, { lineCounter: lines, schema: "failsafe" });
  const raise = (problems: LocatedProblem[]): never => {
    throw new CatalogError(problems, file);
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
  if (!validate(source)) return raise(schemaProblems(validate).map(locate));
  const problems: CatalogProblem[] = [];
  const catalog = build(source, problems);
  if (problems.length > 0) raise(problems.map(locate));
  return catalog;
}
