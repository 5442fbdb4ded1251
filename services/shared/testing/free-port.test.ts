import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { freePort, isPortFree } from "./free-port.ts";

const run = promisify(execFile);
const manyPorts = 150;

test("no port is given twice, in this process or in others beside it, also while nobody listens on it", async () => {
  const script = `import { freePort } from ${JSON.stringify(join(import.meta.dirname, "free-port.ts"))};
    const ports = await Promise.all(Array.from({ length: ${manyPorts} }, freePort));
    console.log(JSON.stringify(ports));`;
  const mine = await Promise.all(Array.from({ length: manyPorts }, freePort));
  const asking = Array.from({ length: 3 }, () => run(process.execPath, ["--input-type=module", "-e", script]));
  // Each asks while this process holds its blocks.
  const theirs = (await Promise.all(asking)).map(({ stdout }) => JSON.parse(stdout) as number[]);
  for (const ports of theirs) {
    assert.equal(new Set([...mine, ...ports]).size, 2 * manyPorts);
  }
  assert.ok(await isPortFree(mine[0] ?? 0));
});
