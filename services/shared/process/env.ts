import { Ajv } from "ajv";
import type { Static, TObject, TProperties } from "typebox";

// What is declared is typed, so it is not checked against the schema of schemas; and code that runs once is not
// optimized. Both together would be a fifth of a service's start.
const ajv = new Ajv({
  allErrors: true,
  allowUnionTypes: true,
  coerceTypes: true,
  removeAdditional: "all",
  useDefaults: true,
  validateSchema: false,
  meta: false,
  code: { optimize: false },
});

/**
 * Reads the variables that a service declares. Throws one Error that names every problem, one per line.
 * Values come from `environment` only; nothing is read from files.
 */
export function readVariables<P extends TProperties>(
  declared: TObject<P>,
  environment: NodeJS.ProcessEnv,
): Static<TObject<P>> {
  const validate = ajv.compile<Static<TObject<P>>>(declared);
  const values: unknown = { ...environment };
  if (validate(values)) return values;
  const problems = (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath.slice(1)} ${message}`);
  throw new Error(["configuration is not usable:", ...problems.map((problem) => problem.trimStart())].join("\n  "));
}
