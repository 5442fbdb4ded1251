import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { repository, run } from "../checks/run.ts";
import { bundleServices, bundlesVariable, runnable } from "./bundles.ts";

const services = ["auth-quota", "billing", "console", "relay", "video-task"];
const main = join(repository, "services/relay/main.ts");
const cache = join(repository, "node_modules");

const given = process.env[bundlesVariable];
after(() => {
  if (given === undefined) delete process.env[bundlesVariable];
  else process.env[bundlesVariable] = given;
});

test("each service is one file, which says what it misses as its sources do", async () => {
  // Those of this run, where there are any; otherwise below the packages, which some files are found in.
  const own = given === undefined ? mkdtempSync(join(cache, "bundles-")) : undefined;
  try {
    if (own !== undefined) await bundleServices((process.env[bundlesVariable] = own));
    for (const service of services) {
      const entry = join(repository, `services/${service}/main.ts`);
      const bundle = runnable(entry, {});
      assert.notEqual(bundle, entry);
      const { code, errors } = await run(process.execPath, [bundle], repository);
      assert.equal(code, 1, service);
      assert.match(errors, /configuration is not usable:\n {2}must have required property '/, service);
    }
  } finally {
    if (own !== undefined) rmSync(own, { recursive: true });
  }
});

test("sources run where there is no bundle, and where they are patched", () => {
  delete process.env[bundlesVariable];
  assert.equal(runnable(main, {}), main);
  process.env[bundlesVariable] = join(cache, "no-bundles");
  assert.equal(existsSync(join(cache, "no-bundles")), false);
  assert.equal(runnable(main, {}), main);
  process.env[bundlesVariable] = given ?? join(cache, ".cache/bundles");
  assert.equal(runnable(main, { SOURCE_PATCHES: '[{ "file": "a" }]' }), main);
});
