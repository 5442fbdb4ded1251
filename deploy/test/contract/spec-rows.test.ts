import assert from "node:assert/strict";
import { test } from "node:test";
import { findSpec, readSpec } from "./spec-file.ts";
import { specRows, titleOf } from "./spec-rows.ts";

test("no row's title begins another's, so that a test's name stands for the row that it means", () => {
  const titles = specRows.map(titleOf);
  for (const title of titles) {
    const alike = titles.filter((other) => other.startsWith(title));
    assert.deepEqual(alike, [title]);
  }
});

test("a Markdown text is read as its tables' body rows and its numbered rules", () => {
  const markdown = [
    "# Title",
    "| Head | Head |",
    "|---|---|",
    "| `a` | 1 |",
    "| b | 2 |",
    "## Request (`POST /v1/x`)",
    "1. Rule one.",
    "text, 2. not a rule",
    "10. Rule ten.",
  ].join("\n");
  assert.deepEqual(readSpec(markdown), [
    { section: "Title", text: "`a` | 1" },
    { section: "Title", text: "b | 2" },
    { section: "Request", text: "1. Rule one." },
    { section: "Request", text: "10. Rule ten." },
  ]);
});

const spec = await findSpec();
const skip = spec ? false : "the spec is not here; name its file in SPEC_FILE";

test("every row of the spec is listed once, and every listed row is in the spec", { skip }, () => {
  const found = (spec ?? []).map(({ section, text }) => {
    const quotes = specRows.filter((row) => row.section === section && text.startsWith(row.quote));
    return { row: `${section}: ${text}`, times: quotes.length };
  });
  assert.ok(found.length > 0, "the spec has rows");
  assert.deepEqual(
    found.filter(({ times }) => times !== 1),
    [],
  );
  const written = spec ?? [];
  const isWritten = (section: string, quote: string): boolean =>
    written.filter((row) => row.section === section && row.text.startsWith(quote)).length === 1;
  assert.deepEqual(
    specRows.filter(({ section, quote }) => !isWritten(section, quote)),
    [],
  );
});
