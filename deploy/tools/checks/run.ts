import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";

/** The folder of the repository. */
export const repository = join(import.meta.dirname, "../../..");

/** How a program ended and all that it wrote, standard output and error apart. */
export type CommandResult = { code: number; output: string; errors: string };

/**
 * Runs a program of node_modules/.bin (or of the system) to its end. A failure is an answer here, not an exception;
 * only a program that cannot be started at all throws.
 */
export function run(program: string, words: string[], folder: string): Promise<CommandResult> {
  // Packaged programs start with `env node` and need the pinned Node, which node_modules/.bin holds as well.
  const path = [join(repository, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter);
  const child = spawn(program, words, { cwd: folder, env: { ...process.env, PATH: path } });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output, errors }));
  });
}
