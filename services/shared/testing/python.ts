import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findProgram } from "./binaries.ts";

const run = promisify(execFile);
const cache = join(import.meta.dirname, "../../../node_modules/.cache/python");

/** The official clients in Python, at the versions that were tried. */
export const officialClients = ["openai[realtime]==3.57.0", "anthropic==2.14.0"];

/** A Python that has the packages a test needs, or why this machine cannot have one. */
export type Python = { program: string } | { missing: string };

/**
 * A Python with packages of PyPI, such as `openai==1.2.3`. They are installed once, in an environment of their own
 * below node_modules, where the next run of the tests finds it.
 */
export async function pythonWith(...requirements: string[]): Promise<Python> {
  const folder = join(cache, requirements.join(","));
  const program = join(folder, "bin/python");
  if (existsSync(program)) return { program };
  const python = findProgram("python3");
  if (python === undefined) return { missing: "python3 is not on this machine" };
  await mkdir(cache, { recursive: true });
  const own = await mkdtemp(join(cache, "making-"));
  try {
    await run(python, ["-m", "venv", "--without-pip", own]);
    // Modules are compiled when they are used: most never are.
    const pip = ["-m", "pip", "install", "--quiet", "--no-compile", "--retries", "1", "--timeout", "10"];
    const env = { ...process.env, PYTHONPATH: await pipOf(python) };
    await run(join(own, "bin/python"), [...pip, "--ignore-installed", ...requirements], { env });
    await rename(own, folder);
    return { program };
  } catch (error) {
    await rm(own, { recursive: true, force: true });
    // Another test may have made it meanwhile.
    return existsSync(program)
      ? { program }
      : { missing: `pip cannot install ${requirements.join(" ")}: ${String(error)}` };
  }
}

/** Where pip lies that all environments share: to put it into each takes as long as what else they need. */
async function pipOf(python: string): Promise<string> {
  const folder = join(cache, "pip");
  if (!existsSync(folder)) {
    const own = await mkdtemp(join(cache, "making-"));
    await run(python, ["-m", "venv", own]);
    // Another test may have made it meanwhile.
    await rename(own, folder).catch(() => rm(own, { recursive: true, force: true }));
  }
  return globSync(join(folder, "lib/python*/site-packages"))[0] ?? "";
}
