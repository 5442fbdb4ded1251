import assert from "node:assert/strict";
import { test } from "node:test";
import { countClauses } from "./coverage.ts";
import type { SpecClause } from "./spec-rows.ts";

const clauses: SpecClause[] = [
  { section: "Limits", row: "Request body size", quote: "above it, 400" },
  { section: "Cases", row: "`/v1` twice", quote: "| 404 |" },
  { section: "Cases", row: "`/v1` twice", quote: "`Invalid URL" },
];
const passed = (name: string) => ({ name, outcome: "passed" as const });

test("a clause is covered by a passed test whose name contains its row's title and then its quote", () => {
  const { isComplete, text } = countClauses(clauses, [
    passed("API spec, Limits: Request body size: above it, 400, at the edge"),
    passed("paths > API spec, Cases: `/v1` twice | 404 | `Invalid URL > /v1/messages"),
  ]);
  assert.deepEqual({ isComplete, text }, { isComplete: true, text: "API spec clauses covered: 3 of 3" });
});

test("another case, another section, another wording and a skipped test do not cover a clause", () => {
  const { isComplete, text } = countClauses(clauses, [
    passed("api spec, limits: request body size: above it, 400"),
    passed("API spec, Cases: Request body size: above it, 400"),
    passed("API spec, Limits, Request body size: above it, 400"),
    passed("API spec, Cases: `/v1` twice `Invalid URL"),
    { name: "API spec, Limits: Request body size: above it, 400", outcome: "skipped" },
  ]);
  assert.equal(isComplete, false);
  assert.deepEqual(text.split("\n"), [
    "no passing test: API spec, Limits: Request body size … above it, 400 (its tests were skipped)",
    "no passing test: API spec, Cases: `/v1` twice … | 404 |",
    "API spec clauses covered: 1 of 3",
  ]);
});
