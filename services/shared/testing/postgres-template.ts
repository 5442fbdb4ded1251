import { execFile } from "node:child_process";
import { hash, randomBytes } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const cache = join(import.meta.dirname, "../../../node_modules/.cache/postgres");

/**
 * Where the data folder lies that every test of this user begins with: making one takes PostgreSQL several times the
 * work of copying it. Another program, or another version of it, has another one.
 */
export function templateFolder(binary: string, within: string = cache): string {
  const { size, mtimeMs } = statSync(binary);
  const key = hash("sha256", JSON.stringify([binary, size, mtimeMs, process.getuid?.()]));
  return join(within, key.slice(0, 16));
}

/** Makes a data folder at a path, with this password of the superuser. */
type Initialise = (folder: string, password: string) => Promise<void>;

/**
 * Puts a copy of the template at `folder`; the first one makes the template, and those who make it at the same time do
 * not disturb each other.
 */
export async function copyTemplate(template: string, folder: string, initialise: Initialise): Promise<void> {
  if (!existsSync(template)) await makeTemplate(template, folder, initialise);
  await run("cp", ["-R", join(template, "data"), folder]);
}

/** The superuser's password in every copy. */
export const templatePassword = (template: string): Promise<string> => readFile(join(template, "password"), "utf8");

// Made beside its place and then moved, so that nobody finds it half made; who comes second throws his own away. The
// server's user may be kept out of the template's folder, but not out of the test's.
async function makeTemplate(template: string, folder: string, initialise: Initialise): Promise<void> {
  const unfinished = `${template}.${randomBytes(4).toString("hex")}`;
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  try {
    const password = randomBytes(16).toString("hex");
    await writeFile(join(unfinished, "password"), password, { mode: 0o600 });
    await initialise(folder, password);
    await run("cp", ["-R", folder, join(unfinished, "data")]);
    await rm(folder, { recursive: true });
    await rename(unfinished, template).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}
