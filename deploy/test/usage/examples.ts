import { join } from "node:path";
import { repository, run, type CommandResult } from "../../tools/checks/run.ts";
import type { Example } from "./prove-consumer.ts";
import { preparePython } from "./python.ts";
import { examples } from "./stage.ts";

const schema = { USAGE_SCHEMA: join(repository, "proto/released.binpb") };

function succeed({ code, output, errors }: CommandResult): void {
  if (code !== 0) throw new Error(`${output}${errors}`);
}

/** The consumer in TypeScript. */
export const typescriptExample: Example = {
  command: process.execPath,
  args: [join(examples, "typescript/consume.ts")],
};

/** The consumer in Python, or why it cannot run here. */
export async function pythonExample(): Promise<Example | { missing: string }> {
  const python = await preparePython();
  if ("missing" in python) return python;
  const environment = { ...schema, PYTHONPATH: join(import.meta.dirname, "late-answers") };
  return { command: python.program, args: ["-B", join(examples, "python/consume.py")], environment };
}

/** The consumer in Go, compiled into a folder; fetches its modules. Throws what the compiler says. */
export async function goExample(folder: string): Promise<Example> {
  const source = join(examples, "go");
  const command = join(folder, "consume");
  succeed(await run("go", ["vet", "."], source));
  succeed(await run("go", ["build", "-o", command, "."], source));
  return { command, args: [], environment: schema };
}
