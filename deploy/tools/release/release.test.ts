import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { cannotRunHelm } from "../../test/chart/helm.ts";
import { makeRelease, readSource, releaseProblems, type BuildImage } from "./release.ts";

test("package.json, chart and changelog have one version; another one is refused", async () => {
  const { version } = await readSource();
  const isAbout = (word: string) => (problem: string) => problem.startsWith(word);
  const problems = await releaseProblems(version);
  assert.deepEqual([problems.filter(isAbout("helm/Chart.yaml")), problems.filter(isAbout("CHANGELOG"))], [[], []]);
  const others = await releaseProblems("99.0.0");
  assert.equal(others.filter(isAbout("helm/Chart.yaml")).length, 2);
  assert.equal(others.filter(isAbout("CHANGELOG")).length, 1);
});

test("a release has image, chart, packages and provenance, and the hash of each", { skip: cannotRunHelm }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "release-"));
  const into = join(folder.path, "files");
  const build: BuildImage = async (_source, archive) => {
    await writeFile(archive, "image");
    return "a test";
  };
  const files = await makeRelease(into, await readSource(), build);
  const { version, revision } = await readSource();
  const names = [".cdx.json", ".oci.tar", ".provenance.json", ".tgz"].map((end) => `model-relay-${version}${end}`);
  assert.deepEqual(files, ["SHA256SUMS", ...names]);
  const provenance = JSON.parse(await readFile(join(into, `model-relay-${version}.provenance.json`), "utf8"));
  const digest = createHash("sha256").update("image").digest("hex");
  const subject = { name: `model-relay-${version}.oci.tar`, digest: { sha256: digest } };
  assert.ok(provenance.subject.some((one: object) => JSON.stringify(one) === JSON.stringify(subject)));
  assert.deepEqual(provenance.predicate.buildDefinition.resolvedDependencies, [
    { uri: "git", digest: { gitCommit: revision } },
  ]);
  assert.match(await readFile(join(into, "SHA256SUMS"), "utf8"), new RegExp(`^${digest}  model-relay-.*oci.tar$`, "m"));
  const packages = JSON.parse(await readFile(join(into, `model-relay-${version}.cdx.json`), "utf8"));
  assert.equal(packages.bomFormat, "CycloneDX");
  await assert.rejects(makeRelease(into, await readSource(), build), /is not empty/);
});
