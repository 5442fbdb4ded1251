import { readdirSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { withoutRandom } from "./helm.ts";
import { type KubeObject, nameOf } from "./objects.ts";

export const goldenFolder = join(import.meta.dirname, "golden");

/** Names of the sets that have a golden file. */
export const goldenSets = (): string[] => readdirSync(goldenFolder).map((file) => file.replace(/\.yaml$/, ""));

// What comes from deploy/observability is compared with its source elsewhere; here it would only hide the chart.
function withoutCopies(object: KubeObject): KubeObject {
  const { kind, metadata } = object;
  if (kind === "PrometheusRule") return { ...object, spec: { groups: "see deploy/observability/rules" } };
  if (metadata.labels?.["grafana_dashboard"] === undefined) return object;
  const files = Object.keys(object["data"] as object);
  return { ...object, data: Object.fromEntries(files.map((file) => [file, "see deploy/observability/dashboards"])) };
}

/** Rendered objects as the text of a golden file: by kind and name, keys in order of the alphabet, no comments. */
export function goldenText(objects: KubeObject[]): string {
  const sorted = objects.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  const texts = sorted.map((object) => stringify(withoutCopies(object), { sortMapEntries: true, lineWidth: 0 }));
  return withoutRandom(texts.join("---\n"));
}
