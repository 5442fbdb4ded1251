import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createMetrics as createBillingMetrics } from "../../services/billing/metrics.ts";
import { createMetrics as createRelayMetrics } from "../../services/relay/metrics.ts";
import { createRegistry } from "../../services/shared/metrics/ops.ts";
import { dashboardFiles } from "./dashboard-files.ts";
import { catalogue, sampleNames } from "./catalogue.ts";
import { alertTable, readmeWithAlerts } from "./alert-table.ts";
import { readPromql, withoutVariables } from "./read-promql.ts";
import { renderSloRules } from "./slo-rules.ts";
import { alertRules, expressions, filesOf, folder, pages, recordingRules } from "./written.ts";

const read = (path: string): string => readFileSync(join(folder, path), "utf8");
const metrics = catalogue();

/** What Prometheus adds to every series, and our registries to each of theirs. */
const everywhere = ["namespace", "job", "instance", "pod", "container", "service"];
/** Series that Prometheus makes itself. */
const synthetic = ["up", "scrape_duration_seconds", "scrape_samples_scraped", "ALERTS"];

const labelsByName = new Map<string, Set<string>>(synthetic.map((name) => [name, new Set(everywhere)]));
for (const metric of metrics) {
  for (const name of sampleNames(metric)) {
    const known = labelsByName.get(name) ?? new Set([...everywhere, ...(name.endsWith("_bucket") ? ["le"] : [])]);
    labelsByName.set(name, new Set([...known, ...metric.labels]));
  }
}
for (const { record } of recordingRules()) {
  const [level = ""] = record.split(":");
  labelsByName.set(record, new Set(level.split("_")));
}

const readings = expressions().map(({ where, expr }) => ({ where, expr, ...readPromql(withoutVariables(expr)) }));

describe("what is written of metrics is so in the code", () => {
  it("every expression of rules, dashboards and runbooks is PromQL", () => {
    const wrong = readings.filter(({ errors }) => errors.length > 0);
    assert.deepEqual(
      wrong.map(({ where, expr, errors }) => `${where}: ${errors.join(", ")} in ${expr}`),
      [],
    );
    assert.ok(readings.length > 250, `found only ${readings.length} expressions`);
  });

  it("every metric of an expression exists", () => {
    const unknown = readings.flatMap(({ where, metrics: named }) =>
      named.filter((name) => !labelsByName.has(name)).map((name) => `${where}: ${name}`),
    );
    assert.deepEqual(unknown, []);
  });

  it("every label of a matcher or a grouping exists on a metric that it is about", () => {
    const unknown = readings.flatMap(({ where, asked }) =>
      asked
        .filter(({ label, of }) => !of.some((name) => labelsByName.get(name)?.has(label)))
        .map(({ label, of }) => `${where}: ${label} of ${of.join(", ")}`),
    );
    assert.deepEqual(unknown, []);
  });

  it("a recording rule's first part names the labels that it keeps", () => {
    for (const { record } of recordingRules()) {
      assert.match(record, /^[a-z_]+:[a-z_]+:[a-z0-9_]+$/, record);
    }
  });

  it("every metric is on a dashboard or in a rule, those of Node itself apart", () => {
    const used = new Set(
      readings.filter(({ where }) => !where.startsWith("runbooks/")).flatMap((each) => each.metrics),
    );
    const unused = metrics.filter(
      (metric) => !/^(nodejs|process)_/.test(metric.name) && !sampleNames(metric).some((name) => used.has(name)),
    );
    assert.deepEqual([...new Set(unused.map(({ name }) => name))], []);
  });

  it("every metric that a page names exists", () => {
    const repository = join(folder, "../..");
    const readmes = globSync(["services/*/README.md", "deploy/*/*.md", "deploy/tools/*/README.md", "helm/README.md"], {
      cwd: repository,
    });
    const texts = [
      ...pages(),
      ...readmes.map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") })),
    ];
    const ours = /`((?:relay|auth_quota|billing|video_task|console|grpc_server)_[a-z0-9_]+)(?:\{[^`]*\})?`/g;
    // Columns, fields of proto/ and roles of the database begin alike.
    const isOther = (name: string): boolean => /^relay_session$|_rw$/.test(name);
    const isKnown = (name: string): boolean => labelsByName.has(name) || metrics.some((metric) => metric.name === name);
    const unknown = texts.flatMap(({ path, text }) =>
      [...text.matchAll(ours)]
        .map(([, name = ""]) => name)
        .filter((name) => !isOther(name) && !isKnown(name))
        .map((name) => `${path}: ${name}`),
    );
    assert.deepEqual(unknown, []);
  });
});

describe("alerts, their tests and their runbooks", () => {
  const alerts = [...new Set(alertRules().map(({ alert }) => alert))].toSorted();

  it("each says what it is, with its value, and is a page or a ticket", () => {
    for (const { alert, labels, annotations } of alertRules()) {
      assert.ok(["page", "ticket"].includes(labels["severity"] ?? ""), `${alert}: severity`);
      assert.ok(annotations["summary"], `${alert}: summary`);
      assert.match(annotations["description"] ?? "", /\$value/, `${alert}: description`);
      assert.equal(annotations["runbook_url"], `deploy/observability/runbooks/${alert}.md`);
    }
  });

  it("each has a runbook, and each runbook an alert", () => {
    const runbooks = filesOf("runbooks", ".md").map((file) => file.replace(/\.md$/, ""));
    assert.deepEqual(
      runbooks.filter((name) => name !== "README"),
      alerts,
    );
  });

  it("each runbook says what it means, whom it hurts, what to look at, what to do and whom to call", () => {
    const wanted = ["# ", "## Meaning", "## Impact", "## First checks", "## Mitigation", "## Escalation"];
    for (const alert of alerts) {
      const text = read(`runbooks/${alert}.md`);
      const headings = text.replace(/^```[^]*?^```/gm, "").match(/^#+ /gm) ?? [];
      assert.equal(headings.length, wanted.length, `${alert}: headings`);
      for (const heading of wanted) assert.ok(text.includes(`${heading}`), `${alert}: ${heading}`);
      assert.ok(text.startsWith(`# ${alert}\n`), `${alert}: title`);
      assert.match(text, /```promql\n/, `${alert}: a query`);
    }
  });

  it("each has a test of when it fires and of when it does not", () => {
    const tests = filesOf("rules-tests", ".yaml").map((file) => read(`rules-tests/${file}`));
    for (const alert of alerts) {
      const cases = tests.flatMap((text) =>
        text.split("      - alertname: ").filter((part) => part.startsWith(`${alert}\n`)),
      );
      assert.ok(
        cases.some((part) => part.includes("exp_labels")),
        `${alert} is not seen to fire`,
      );
      // A case of a burn holds both: the namespaces that burn, and those that do not.
      const isQuiet = cases.some((part) => part.includes("exp_alerts: []")) || alert.endsWith("Burn");
      assert.ok(isQuiet, `${alert} is not seen to be quiet`);
    }
  });
});

describe("what is made from data is current; npm run generate", () => {
  it("rules/slo.yaml", () => assert.equal(read("rules/slo.yaml"), renderSloRules()));

  it("dashboards/", () => {
    const files = dashboardFiles();
    assert.deepEqual(filesOf("dashboards", ".json"), files.map(({ name }) => name).toSorted());
    for (const { name, text } of files) assert.equal(read(`dashboards/${name}`), text, name);
  });

  it("the table of alerts", () => assert.equal(read("README.md"), readmeWithAlerts(read("README.md"), alertTable())));
});

describe("panels of latency", () => {
  it("show exemplars", () => {
    type Target = { expr: string; range: boolean; exemplar?: boolean };
    const panels = dashboardFiles().flatMap(
      ({ text }) => (JSON.parse(text) as { panels: { targets?: Target[] }[] }).panels,
    );
    const quantiles = panels
      .flatMap(({ targets = [] }) => targets)
      .filter(({ expr, range }) => range && expr.includes("histogram_quantile"));
    assert.ok(quantiles.length > 10, `found only ${quantiles.length}`);
    assert.deepEqual(
      quantiles.filter(({ exemplar }) => !exemplar),
      [],
    );
  });
});

describe("objectives", () => {
  it("name bounds that their histograms have", async () => {
    const registry = createRegistry("all");
    const { addedLatency, timeToFirstByte } = createRelayMetrics(registry);
    addedLatency.of({ endpoint: "/v1/responses" });
    timeToFirstByte.of({ endpoint: "/v1/responses", streamed: "true" });
    createBillingMetrics(registry);
    const text = await registry.metrics();
    assert.match(text, /^relay_added_latency_seconds_bucket\{[^}]*le="0.025"/m);
    assert.match(text, /^relay_time_to_first_byte_seconds_bucket\{[^}]*le="5"/m);
    assert.match(text, /^billing_event_age_seconds_bucket\{[^}]*le="60"/m);
  });
});

describe("the reader of PromQL", () => {
  it("finds what is wrong", () => {
    assert.notDeepEqual(readPromql("sum by (a (up)").errors, []);
    assert.notDeepEqual(readPromql("rate(up[5m]").errors, []);
    assert.deepEqual(readPromql('sum by (a) (rate(x_total{b="c"}[5m]))'), {
      errors: [],
      metrics: ["x_total"],
      asked: [
        { label: "a", of: ["x_total"] },
        { label: "b", of: ["x_total"] },
      ],
    });
  });
});
