import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findProgram } from "#shared/testing/binaries.ts";

const run = promisify(execFile);
const cache = join(import.meta.dirname, "../../../node_modules/.cache/python");

/**
 * A Python that has a package, such as `openai==1.2.3`, or why there is none. It is installed in an environment of its
 * own, beside npm's packages, where the next run of the tests finds it.
 */
export async function pythonWith(requirement: string): Promise<{ program: string } | { missing: string }> {
  const folder = join(cache, requirement);
  const program = join(folder, "bin/python");
  if (existsSync(program)) return { program };
  const python = findProgram("python3");
  if (python === undefined) return { missing: "python3 is not on this machine" };
  await mkdir(cache, { recursive: true });
  const own = await mkdtemp(join(cache, "making-"));
  try {
    await run(python, ["-m", "venv", own]);
    await run(join(own, "bin/python"), ["-m", "pip", "install", "--quiet", requirement]);
    await rename(own, folder);
    return { program };
  } catch (error) {
    await rm(own, { recursive: true, force: true });
    // Another run of the tests may have made it meanwhile.
    return existsSync(program) ? { program } : { missing: `${requirement} cannot be installed: ${String(error)}` };
  }
}
