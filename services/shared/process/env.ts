import { envSchema } from "env-schema";
import type { Static, TObject, TProperties } from "typebox";

/**
 * Reads the variables that a service declares. Throws one Error that names every problem, one per line.
 * Values come from `environment` only; nothing is read from files.
 */
export function readVariables<P extends TProperties>(
  declared: TObject<P>,
  environment: NodeJS.ProcessEnv,
): Static<TObject<P>> {
  try {
    return envSchema<Static<TObject<P>>>({ schema: declared, data: environment, env: false });
  } catch (error) {
    const problems = (error instanceof Error ? error.message : String(error)).replaceAll("env/", "");
    throw new Error(`configuration is not usable:\n  ${problems.split(", ").join("\n  ")}`, { cause: error });
  }
}
