import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { findTool } from "#shared/testing/binaries.ts";
import { filesOf, folder } from "./written.ts";

const promtool = findTool("promtool");
const skip = promtool ? false : "promtool, of the package prometheus, is not installed";
const run = promisify(execFile);

/** Runs promtool; an exit code other than 0 is an Error with all that it wrote. */
async function check(args: string[]): Promise<void> {
  await run(promtool ?? "", args, { cwd: folder }).catch(({ stdout, stderr }: { stdout: string; stderr: string }) =>
    assert.fail(`${stdout}\n${stderr}`),
  );
}

describe("rules as Prometheus' own tool sees them", { skip, concurrency: 2 }, () => {
  it("are well formed and none is there twice", async () => {
    const files = filesOf("rules", ".yaml").map((file) => join("rules", file));
    await check(["check", "rules", "--lint=all", "--lint-fatal", ...files]);
  });

  for (const file of filesOf("rules-tests", ".yaml")) {
    it(`alerts of ${file} fire when they should, and only then`, () =>
      check(["test", "rules", join("rules-tests", file)]));
  }
});
