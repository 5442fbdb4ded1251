import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findProgram } from "#shared/testing/binaries.ts";
import { goExample } from "./examples.ts";
import { proveConsumer } from "./prove-consumer.ts";

// What `npm run test:examples` runs: not part of `npm test`, because it fetches modules and compiles them.
const skip = findProgram("go") ? false : "go is not on this machine";

test("the Go consumer counts each event once: twice on the stream, killed, and read again", { skip }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "usage-go-"));
  await proveConsumer(await goExample(folder.path));
});
