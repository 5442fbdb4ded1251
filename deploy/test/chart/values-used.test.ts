import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { cannotRunHelm, chartFolder } from "./helm.ts";
import { readValuesFile, type Tree } from "./values-file.ts";
import { undeclaredValues } from "./values-named.ts";
import { unusedValues } from "./values-probe.ts";

test("every value changes a render, and one that is planted does not", { skip: cannotRunHelm }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "chart-values-"));
  const planted = "## @param planted.name Nothing reads it.\nplanted: { name: a }\n";
  const unused = await unusedValues(`${await readValuesFile()}\n${planted}`, folder.path);
  assert.deepEqual(unused, ["global", "planted.name"]);
});

test("every value that a template names is in values.yaml", async () => {
  const values = parse(await readValuesFile()) as Tree;
  const files = globSync("templates/**/*.{yaml,tpl,txt}", { cwd: chartFolder });
  assert.ok(files.length > 20);
  for (const file of files) {
    assert.deepEqual(undeclaredValues(await readFile(join(chartFolder, file), "utf8"), values), [], file);
  }
});

test("names that are not declared are found, directly and by a variable", () => {
  const values = { relay: { a: 1, tls: { secret: "" } }, billing: { b: 1 } };
  const template = [
    "{{ .Values.relay.a }} {{ $.Values.rellay.a }}",
    '{{- $own := index .root.Values (include "model-relay.valuesKey" .component) -}}',
    "{{ $own.a }} {{ $own.b }} {{ $own.c }}",
    "{{- $tls := .Values.relay.tls -}} {{ $tls.secret }} {{ $tls.secrets }}",
  ].join("\n");
  assert.deepEqual(undeclaredValues(template, values), [
    "rellay.a",
    "relay.c or authQuota.c or billing.c or videoTask.c or console.c",
    "relay.tls.secrets",
  ]);
});
