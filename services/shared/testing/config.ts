import { delimiter } from "node:path";

/** Folders of the PATH variable, in its order. */
export function searchPath(): string[] {
  return (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
}

/** The browser that CHROMIUM_PATH names for browser tests; undefined when it is not set. */
export function givenBrowser(): string | undefined {
  return process.env["CHROMIUM_PATH"] || undefined;
}
