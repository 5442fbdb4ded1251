import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

export const root = join(import.meta.dirname, "../../..");

/** Why tests that need the version before cannot run; undefined: they can, or fail where its commit is missing. */
export const whyNotKnown = reasonNotKnown();

function reasonNotKnown(): string | undefined {
  if (!existsSync(join(root, ".git"))) return "this is no git checkout: there is no version before this one";
  if (existsSync(join(root, ".git/shallow"))) return "this clone is shallow: the version before is not in it";
  return undefined;
}

const run = promisify(execFile);
const git = (...args: string[]): Promise<string> => run("git", ["-C", root, ...args]).then(({ stdout }) => stdout);

/** The commit that the file `previous-version` names; fails where the clone does not hold it. */
async function commitBefore(): Promise<string> {
  const commit = (await readFile(join(import.meta.dirname, "previous-version"), "utf8")).trim();
  const found = await git("cat-file", "-t", commit).catch(() => "");
  assert.equal(
    found.trim(),
    "commit",
    `this clone lacks the commit ${commit} of deploy/test/e2e/previous-version: fetch it`,
  );
  return commit;
}

/** The files of the version before, below a folder. */
export async function filesBefore(folder: string): Promise<Set<string>> {
  const list = await git("ls-tree", "-r", "--name-only", "-z", await commitBefore(), folder);
  return new Set(list.split("\0"));
}

/**
 * Unpacks the code of the version before into a folder, with the packages of this one: what it needs beside them is a
 * development dependency.
 */
export async function unpackBefore(folder: string): Promise<void> {
  const archive = join(folder, "code.tar");
  await git(
    "archive",
    "--format=tar",
    `--output=${archive}`,
    await commitBefore(),
    "services",
    "proto",
    "package.json",
  );
  await run("tar", ["-xf", archive, "-C", folder]);
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
}
