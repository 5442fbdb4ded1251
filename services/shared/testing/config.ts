import { delimiter } from "node:path";

/** Folders of the PATH variable, in its order. */
export function searchPath(): string[] {
  return (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
}

/** The browser that CHROMIUM_PATH names for browser tests; undefined when it is not set. */
export function givenBrowser(): string | undefined {
  return process.env["CHROMIUM_PATH"] || undefined;
}

/** What a program needs in its environment to find its modules compiled, where tests are run with such a cache. */
export function compileCache(): { NODE_COMPILE_CACHE?: string } {
  const { NODE_COMPILE_CACHE } = process.env;
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
}
