import assert from "node:assert/strict";
import { test } from "node:test";
import { findSpec, readSpec } from "./spec-file.ts";
import { introductions, specClauses, specRows, standsFor, titleOf } from "./spec-rows.ts";

test("no row's title begins another's, so that a test's name stands for the row that it means", () => {
  const titles = specRows.map(titleOf);
  for (const title of titles) {
    const alike = titles.filter((other) => other.startsWith(title));
    assert.deepEqual(alike, [title]);
  }
});

test("no clause of a row contains another, so that a test's name stands for the clause that it means", () => {
  for (const { clauses, ...row } of specRows) {
    assert.ok(clauses.length > 0, titleOf(row));
    for (const clause of clauses) {
      const alike = clauses.filter((other) => other.includes(clause));
      assert.deepEqual(alike, [clause]);
    }
  }
});

test("a name stands for a clause behind its row's title, of a suite too, but not behind another row's", () => {
  const clause = { section: "Cases", row: "`/v1` twice", quote: "| 404 |" };
  const names = {
    "API spec, Cases: `/v1` twice | 404 | of every path": true,
    "paths > API spec, Cases: `/v1` twice > | 404 | (GET)": true,
    "API spec, Cases: `/v1` twice; API spec, Cases: Unsupported endpoint | 404 |": false,
    "API spec, Errors: `/v1` twice | 404 |": false,
    "| 404 | API spec, Cases: `/v1` twice": false,
  };
  for (const [name, isNamed] of Object.entries(names)) assert.equal(standsFor(name, clause), isNamed, name);
});

test("a Markdown text is read as its tables' body rows, its numbered rules and its paragraphs", () => {
  const markdown = [
    "# Title",
    "| Head | Head |",
    "|---|---|",
    "| `a` | 1 |",
    "| b | 2 |",
    "## Request (`POST /v1/x`)",
    "1. Rule one.",
    "",
    "A paragraph. Its rest: not shown.",
    "- A thing: not shown.",
    "10. Rule ten.",
  ].join("\n");
  assert.deepEqual(readSpec(markdown), [
    { section: "Title", text: "`a` | 1" },
    { section: "Title", text: "b | 2" },
    { section: "Request", text: "1. Rule one." },
    { section: "Request", text: "A paragraph. Its rest: not shown." },
    { section: "Request", text: "10. Rule ten." },
  ]);
});

const spec = await findSpec();
const skip = spec ? false : "the spec is not here; name its file in SPEC_FILE";

test("every row of the spec is listed once, and every listed row is in the spec", { skip }, () => {
  const written = (spec ?? []).filter(({ text }) => !introductions.includes(text));
  assert.ok(written.length > 0, "the spec has rows");
  const found = written.map(({ section, text }) => {
    const quotes = specRows.filter((row) => row.section === section && text.startsWith(row.quote));
    return { row: `${section}: ${text}`, times: quotes.length };
  });
  assert.deepEqual(
    found.filter(({ times }) => times !== 1),
    [],
  );
  const isWritten = (section: string, quote: string): boolean =>
    written.filter((row) => row.section === section && row.text.startsWith(quote)).length === 1;
  assert.deepEqual(
    specRows.filter(({ section, quote }) => !isWritten(section, quote)),
    [],
  );
});

test("every clause is in its row of the spec, once and in its words", { skip }, () => {
  const unknown = specClauses.filter(({ section, row, quote }) => {
    const text = (spec ?? []).find((one) => one.section === section && one.text.startsWith(row))?.text ?? "";
    return text.slice(row.length).split(quote).length !== 2;
  });
  assert.deepEqual(unknown, []);
});
