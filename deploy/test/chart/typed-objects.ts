import { mkdir, mkdtempDisposable, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repository, run } from "../../tools/checks/run.ts";
import type { KubeObject } from "./objects.ts";

/** Packages of types by the API group that they describe; what stands here with no name is Kubernetes itself. */
const packages: Record<string, string> = {
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
  "keda.sh": "@kubernetes-models/keda",
  "cert-manager.io": "@kubernetes-models/cert-manager",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};

/** The package that describes an API group, for resources that are not Kubernetes' own. */
export const packageOf = (apiVersion: string): string | undefined => packages[apiVersion.split("/")[0] ?? ""];

const settings = {
  compilerOptions: {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: "es2024",
    module: "nodenext",
    moduleResolution: "nodenext",
    types: [],
  },
  include: ["*/*.ts"],
};

/** An object as a literal of its kind's type: the compiler refuses fields that the type does not know. */
function typedLiteral(object: KubeObject): string {
  const { apiVersion, kind } = object;
  const from = `${packageOf(apiVersion) ?? "kubernetes-models"}/${apiVersion}/${kind}`;
  const type = `I${kind}`;
  return `import type { ${type} } from "${from}";\nexport const it: ${type} = ${JSON.stringify(object, null, 2)};\n`;
}

/** Objects of several sets through one run of tsc. Gives the compiler's words, which name set, object and line. */
export async function typeProblems(sets: Map<string, KubeObject[]>): Promise<string[]> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "chart-types-"));
  await symlink(join(repository, "node_modules"), join(folder.path, "node_modules"));
  await writeFile(join(folder.path, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(folder.path, "tsconfig.json"), JSON.stringify(settings));
  for (const [set, objects] of sets) {
    await mkdir(join(folder.path, set));
    for (const object of objects) {
      const file = `${object.kind}-${object.metadata.name}.ts`;
      await writeFile(join(folder.path, set, file), typedLiteral(object));
    }
  }
  const { code, output, errors } = await run("tsc", ["-p", "."], folder.path);
  return code === 0 ? [] : `${output}${errors}`.split("\n").filter(Boolean);
}
