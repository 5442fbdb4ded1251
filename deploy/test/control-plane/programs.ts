import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { repository, run } from "../../tools/checks/run.ts";

// They come as Go modules and are compiled once. On two cores the API server and the controller manager take some ten
// minutes each, so nothing of `npm test` needs them.
const kubernetes = { major: "1", minor: "36", gitVersion: "v1.36.3" };
const versionWords = Object.entries(kubernetes)
  .map(([name, value]) => `-X k8s.io/component-base/version.${name.replace(/^m/, "gitM")}=${value}`)
  .join(" ");
const cache = join(repository, "node_modules/.cache");

async function compiled(program: string, words: string[], environment: Record<string, string> = {}): Promise<string> {
  if (existsSync(program)) return program;
  await mkdir(join(program, ".."), { recursive: true });
  const told = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const { code, errors } = await run("env", [...told, "go", ...words], import.meta.dirname);
  assert.equal(code, 0, errors);
  return program;
}

/** The programs of a control plane, in the versions of go.mod. */
export async function controlPlanePrograms(): Promise<{ etcd: string; apiServer: string; controllers: string }> {
  const build = (name: string, source: string): Promise<string> => {
    const program = join(cache, "control-plane", name);
    return compiled(program, ["build", "-trimpath", `-ldflags=-s -w ${versionWords}`, "-o", program, source]);
  };
  return {
    etcd: await build("etcd", "go.etcd.io/etcd/server/v3"),
    apiServer: await build("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    controllers: await build("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
  };
}

/** The current versions of helm. The one that npm has a package of is an old one. */
export const currentHelms = ["helm.sh/helm/v3/cmd/helm@v3.22.0", "helm.sh/helm/v4/cmd/helm@v4.3.1"] as const;

/** A helm of `currentHelms`. */
export function buildHelm(source: string): Promise<string> {
  const folder = join(cache, "helm", source.slice(source.indexOf("@") + 1));
  return compiled(join(folder, "helm"), ["install", source], { GOBIN: folder });
}
