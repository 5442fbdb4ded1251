import { delimiter } from "node:path";

/** Folders of the PATH variable, in its order. */
export function searchPath(): string[] {
  return (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
}
