import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { repository, run, type CommandResult } from "../../tools/checks/run.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { proveConsumer } from "./prove-consumer.ts";
import { examples } from "./stage.ts";

// What `npm run test:examples` runs: not part of `npm test`, because it fetches modules and compiles them.
const environment = { USAGE_SCHEMA: join(repository, "proto/released.binpb") };

function succeed({ code, output, errors }: CommandResult): void {
  if (code !== 0) throw new Error(`${output}${errors}`);
}

const without = (program: string) => (findProgram(program) ? false : `${program} is not on this machine`);

test(
  "the Go consumer counts each event once: twice on the stream, killed, and read again",
  {
    skip: without("go"),
  },
  async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "usage-go-"));
    const source = join(examples, "go");
    const binary = join(folder.path, "consume");
    succeed(await run("go", ["vet", "."], source));
    succeed(await run("go", ["build", "-o", binary, "."], source));
    await proveConsumer({ command: binary, args: [], environment });
  },
);
