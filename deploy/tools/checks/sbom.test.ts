import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { repository, run } from "./run.ts";

type Lock = {
  packages: Record<string, { version?: string; dev?: boolean; devOptional?: boolean; optional?: boolean }>;
};
type Sbom = { bomFormat: string; components: { purl: string; hashes?: unknown[] }[] };

test("npm run sbom lists every package of the lock file that is installed in production, with its hash", async () => {
  const { code, output, errors } = await run("npm", ["run", "--silent", "sbom"], repository);
  assert.equal(code, 0, errors);
  const { bomFormat, components } = JSON.parse(output) as Sbom;
  assert.equal(bomFormat, "CycloneDX");
  const { packages } = JSON.parse(await readFile(join(repository, "package-lock.json"), "utf8")) as Lock;
  const needed = Object.entries(packages).filter(([path, { dev, devOptional, optional }]) => {
    return path !== "" && dev !== true && devOptional !== true && optional !== true;
  });
  assert.ok(needed.length > 100);
  const listed = new Set(components.map(({ purl }) => decodeURIComponent(purl)));
  for (const [path, { version }] of needed) {
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    assert.ok(listed.has(`pkg:npm/${name}@${version}`), `${name}@${version}`);
  }
  assert.ok(components.every(({ hashes = [] }) => hashes.length > 0));
});
