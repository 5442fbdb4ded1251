import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { catalogue, sampleNames } from "./catalogue.ts";
import { renderCatalogue } from "./catalogue-page.ts";

test("metrics.md is the catalogue of the code; `npm run generate` makes it so", async () => {
  assert.equal(await readFile(join(import.meta.dirname, "metrics.md"), "utf8"), renderCatalogue());
});

// A new one is looked at by a person: what it holds must be bounded, and nobody's secret.
const allowed = new Set(
  (
    "bucket check code end endpoint field finding hash kind major method metric minor model node_version operation outcome " +
    "patch path phase provider reason run shard space state status streamed upstream use verb verdict version"
  ).split(" "),
);

// Ten accounts at most, with an id and no name.
const ofFailingAccounts = "relay_failing_account_calls{account}";

test("no label tells of a key, an account, a person or a call, but the accounts whose calls fail most", () => {
  const strange = catalogue()
    .flatMap(({ name, labels }) => labels.filter((label) => !allowed.has(label)).map((label) => `${name}{${label}}`))
    .filter((label) => label !== ofFailingAccounts);
  assert.deepEqual(strange, []);
});

test("a name is of one type, with the same labels and words, in every service", () => {
  for (const [name, same] of Map.groupBy(catalogue(), (metric) => metric.name)) {
    const kinds = new Set(same.map(({ type, labels, help }) => JSON.stringify([type, labels, help])));
    assert.equal(kinds.size, 1, name);
  }
});

test("a name ends as Prometheus' rules for names say", () => {
  for (const { name, type } of catalogue()) {
    assert.equal(name.endsWith("_total"), type === "counter", name);
    assert.doesNotMatch(name, /_(?:bucket|sum|count)$/);
  }
});

test("Prometheus keeps a histogram under three names", () => {
  assert.deepEqual(sampleNames({ name: "x_seconds", type: "histogram" }), [
    "x_seconds_bucket",
    "x_seconds_sum",
    "x_seconds_count",
  ]);
  assert.deepEqual(sampleNames({ name: "x_total", type: "counter" }), ["x_total"]);
});
