import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findProgram } from "#shared/testing/binaries.ts";
import { repository, run } from "../checks/run.ts";
import { examples } from "./stage.ts";

/** A Python that has the packages of the example, or why this machine cannot have one. */
export type Python = { program: string } | { missing: string };

/** Makes it in the cache of this repository, where it is not there already: pip fetches what the example pins. */
export async function preparePython(): Promise<Python> {
  const machinePython = findProgram("python3");
  if (machinePython === undefined) return { missing: "python3 is not on this machine" };
  const requirements = join(examples, "python/requirements.txt");
  const hash = createHash("sha256").update(readFileSync(requirements)).digest("hex").slice(0, 16);
  const folder = join(repository, "node_modules/.cache/usage-python", hash);
  const [program, mark] = [join(folder, "bin/python"), join(folder, "complete")];
  if (existsSync(mark)) return { program };
  const made = await run(machinePython, ["-m", "venv", "--clear", folder], repository);
  if (made.code !== 0) return { missing: `python3 makes no environment: ${lastLine(made.errors)}` };
  const words = ["-m", "pip", "install", "-q", "--retries", "1", "--timeout", "10", "-r", requirements];
  const installed = await run(program, words, repository);
  if (installed.code !== 0) return { missing: `pip cannot fetch its packages: ${lastLine(installed.errors)}` };
  await writeFile(mark, "");
  return { program };
}

const lastLine = (text: string): string => text.trim().split("\n").at(-1) ?? "";
