/** A Grafana unit: what a number of a panel is. */
export type Unit = "s" | "bytes" | "Bps" | "percentunit" | "short" | "reqps" | "ops" | "currencyUSD";

export type Query = { expr: string; /** How a line is called, with labels as `{{label}}`. */ legend: string };

export type Panel = {
  title: string;
  description: string;
  unit: Unit;
  /** A number of now instead of lines over time. */
  isNumber?: boolean;
  queries: Query[];
};

export type Row = { title: string; panels: Panel[] };

export type Dashboard = {
  /** Part of its address in Grafana; never changed. */
  uid: string;
  title: string;
  description: string;
  rows: Row[];
};

const datasource = { type: "prometheus", uid: "${datasource}" };
const wide = 24;
const panelHeight = 8;
const numberHeight = 4;

type GridPosition = { x: number; y: number; w: number; h: number };

function panelJson(
  { title, description, unit, isNumber = false, queries }: Panel,
  id: number,
  gridPos: GridPosition,
): object {
  const targets = queries.map(({ expr, legend }, index) => ({
    datasource,
    editorMode: "code",
    expr,
    legendFormat: legend,
    range: !isNumber,
    instant: isNumber,
    // Points that lead to the trace of a call, where the histogram has any.
    ...(!isNumber && expr.includes("histogram_quantile") ? { exemplar: true } : {}),
    refId: String.fromCodePoint(65 + index),
  }));
  const options = isNumber
    ? { reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false }, colorMode: "none", textMode: "auto" }
    : { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } };
  const fieldConfig = { defaults: { unit, ...(isNumber ? {} : { custom: { fillOpacity: 8 } }) }, overrides: [] };
  const type = isNumber ? "stat" : "timeseries";
  return { id, type, title, description, datasource, gridPos, fieldConfig, options, targets };
}

/** Numbers stand four to a line, other panels two; a row begins a line of its own. */
function panelsOf(rows: Row[]): object[] {
  const made: object[] = [];
  let y = 0;
  for (const { title, panels } of rows) {
    made.push({
      id: made.length + 1,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: wide, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    let lineHeight = 0;
    for (const panel of panels) {
      const [w, h] = panel.isNumber ? [wide / 4, numberHeight] : [wide / 2, panelHeight];
      if (x + w > wide || (lineHeight !== 0 && lineHeight !== h)) {
        y += lineHeight;
        x = 0;
      }
      made.push(panelJson(panel, made.length + 1, { x, y, w, h }));
      x += w;
      lineHeight = h;
    }
    y += lineHeight;
  }
  return made;
}

const variables = [
  { name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus", current: {}, hide: 0 },
  {
    name: "namespace",
    label: "Namespace",
    type: "query",
    datasource,
    query: { query: "label_values(model_relay_build_info, namespace)", refId: "namespace" },
    definition: "label_values(model_relay_build_info, namespace)",
    current: { text: "All", value: "$__all" },
    includeAll: true,
    // Matches series without the label as well, as they are outside of Kubernetes.
    allValue: ".*",
    multi: true,
    refresh: 2,
    sort: 1,
    hide: 0,
  },
];

/** The text of a dashboard's file, in Grafana's own schema. */
export function renderDashboard({ uid, title, description, rows }: Dashboard): string {
  const json = {
    uid,
    title: `Model relay / ${title}`,
    description,
    tags: ["model-relay"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "utc",
    templating: { list: variables },
    annotations: { list: [] },
    links: [{ title: "Model relay", type: "dashboards", tags: ["model-relay"], asDropdown: true }],
    panels: panelsOf(rows),
  };
  return `${JSON.stringify(json, null, 2)}\n`;
}
