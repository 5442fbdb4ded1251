import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pythonWith } from "#shared/testing/python.ts";
import { run } from "../../tools/checks/run.ts";
import type { KubeObject } from "./objects.ts";
import { packageOf } from "./typed-objects.ts";

/** The oldest version of Kubernetes that the chart is for, and the newest that the validator knows. */
export const versions = ["1.31", "1.37"];

/** Checks objects; gives what is wrong with them, each with the name of its set. */
export type Validator = (sets: ReadonlyMap<string, readonly KubeObject[]>) => Promise<string[]>;

type Model = new (object: KubeObject) => { validate: () => void };

const isOwn = ({ apiVersion }: KubeObject): boolean => packageOf(apiVersion) === undefined;

/** A text is one to a schema however long it is, and to read dashboards as YAML takes most of the time. */
const shortened = (_: string, value: unknown): unknown =>
  typeof value === "string" && value.length > 1_000 ? value.slice(0, 1_000) : value;

/** By the schemas of the API server's own OpenAPI document, for which a field too many is an error. */
async function ownProblems(program: string, sets: Parameters<Validator>[0]): Promise<string[]> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "chart-schemas-"));
  const files: string[] = [];
  // Most objects of a set are the same in others; each is looked at once.
  const known = new Set<string>();
  for (const [set, objects] of sets) {
    files.push(join(folder.path, `${set}.yaml`));
    // JSON is YAML of each version: what reads it takes a bare `off` for false.
    const texts = objects.filter(isOwn).map((object) => JSON.stringify(object, shortened));
    const documents = texts.filter((text) => !known.has(text));
    for (const text of documents) known.add(text);
    await writeFile(files.at(-1) ?? "", documents.join("\n---\n"));
  }
  const ran = versions.map(async (version) => {
    const words = ["-m", "kubernetes_validate", "--quiet", "--strict", "--kubernetes-version", version, ...files];
    const { code, output, errors } = await run(program, words, folder.path);
    const lines = `${output}${errors}`.split("\n").filter(Boolean);
    // Its warnings are of kinds that it does not know, and it ends well after them.
    return code === 0 && lines.length === 0 ? [] : [`Kubernetes ${version}: exit code ${code}`, ...lines];
  });
  return (await Promise.all(ran)).flat();
}

/** By the schemas of the custom resources' definitions; that no field is too many is the compiler's part. */
async function customProblems(sets: Parameters<Validator>[0]): Promise<string[]> {
  const custom = [...sets].flatMap(([set, objects]) =>
    objects.filter((object) => !isOwn(object)).map((object) => ({ set, object })),
  );
  const found = custom.map(async ({ set, object }) => {
    const { apiVersion, kind, metadata } = object;
    const models = (await import(`${packageOf(apiVersion)}/${apiVersion}/${kind}`)) as Record<string, Model>;
    try {
      const { [kind]: Kind } = models;
      if (!Kind) return [`${set}: there is no kind ${kind}`];
      new Kind(object).validate();
      return [];
    } catch (error) {
      return [`${set}: ${kind} ${metadata.name}: ${String(error)}`];
    }
  });
  return (await Promise.all(found)).flat();
}

/** Validates strictly against the schemas of Kubernetes' API and of custom resources, or says why it cannot. */
export async function schemaValidator(): Promise<Validator | { missing: string }> {
  const python = await pythonWith("kubernetes-validate==1.37.0");
  if ("missing" in python) return python;
  return async (sets) => [...(await ownProblems(python.program, sets)), ...(await customProblems(sets))];
}
