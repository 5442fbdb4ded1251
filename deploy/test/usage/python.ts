import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pythonWith, type Python } from "#shared/testing/python.ts";
import { examples } from "./stage.ts";

/** A Python that has the packages which the example pins. */
export function preparePython(): Promise<Python> {
  const pinned = readFileSync(join(examples, "python/requirements.txt"), "utf8");
  return pythonWith(...pinned.split("\n").filter((line) => line !== ""));
}
