import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

/** An expression of PromQL, and where it stands. */
export type Expression = { where: string; expr: string };

export type AlertRule = {
  alert: string;
  expr: string;
  for?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
};

export type RecordingRule = { record: string; expr: string };

type RuleFile = { groups: { name: string; rules: (AlertRule | RecordingRule)[] }[] };

/** The folder of rules, dashboards and runbooks. */
export const folder = import.meta.dirname;

const textOf = (path: string): string => readFileSync(join(folder, path), "utf8");

/** Names of the files of a folder, in the order of the alphabet. */
export const filesOf = (name: string, end: string): string[] =>
  readdirSync(join(folder, name))
    .filter((file) => file.endsWith(end))
    .toSorted();

const rules = (): (AlertRule | RecordingRule)[] =>
  filesOf("rules", ".yaml").flatMap((file) =>
    (parse(textOf(`rules/${file}`)) as RuleFile).groups.flatMap((group) => group.rules),
  );

export const alertRules = (): AlertRule[] => rules().filter((rule) => "alert" in rule);
export const recordingRules = (): RecordingRule[] => rules().filter((rule) => "record" in rule);

type DashboardFile = { title: string; panels: { title: string; targets?: { expr: string }[] }[] };

/** The queries of all dashboards, with Grafana's variables in them. */
export const dashboardQueries = (): Expression[] =>
  filesOf("dashboards", ".json").flatMap((file) =>
    (JSON.parse(textOf(`dashboards/${file}`)) as DashboardFile).panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ where: `${file}: ${title}`, expr })),
    ),
  );

/** Texts for people, by their paths: runbooks and the README. */
export const pages = (): { path: string; text: string }[] =>
  ["README.md", ...filesOf("runbooks", ".md").map((file) => `runbooks/${file}`)].map((path) => ({
    path,
    text: textOf(path),
  }));

/** What stands in blocks of PromQL in texts for people; an empty line parts two expressions. */
const pageQueries = (): Expression[] =>
  pages().flatMap(({ path, text }) =>
    [...text.matchAll(/^```promql\n([^]*?)^```/gm)].flatMap(([, block = ""]) =>
      block.split("\n\n").map((expr) => ({ where: path, expr: expr.trim() })),
    ),
  );

/** Every expression that is written anywhere. */
export const expressions = (): Expression[] => [
  ...alertRules().map(({ alert, expr }) => ({ where: `alert ${alert}`, expr })),
  ...recordingRules().map(({ record, expr }) => ({ where: `record ${record}`, expr })),
  ...dashboardQueries(),
  ...pageQueries(),
];
