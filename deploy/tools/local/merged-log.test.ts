import assert from "node:assert/strict";
import { test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { formatJson, formatText } from "./merged-log.ts";

const line = JSON.stringify({
  level: "warn",
  time: "2026-11-20T10:11:12.345Z",
  service: "billing",
  subject: "usage.v1.recorded",
  count: 3,
  ["msg"]: "batch waits",
});

test("a service's JSON line becomes one readable line that keeps time, service, level, message and fields", () => {
  const text = stripVTControlCharacters(formatText("billing", line));
  assert.equal(text, "10:11:12.345 billing    WARN batch waits subject=usage.v1.recorded count=3");
});

test("an error shows its stack below its line, a warning only its words", () => {
  const failure = JSON.stringify({
    level: "error",
    ["msg"]: "call failed",
    err: { message: "no", stack: "Error: no\n  at x" },
  });
  assert.match(
    stripVTControlCharacters(formatText("relay", failure)),
    /ERROR call failed err=\n {4}Error: no\n {6}at x$/,
  );
});

test("a line that is no JSON is shown as it is, under the name of its service", () => {
  assert.match(stripVTControlCharacters(formatText("relay", "{oops")), /^[\d:.]{12} relay {6}\{oops$/);
});

test("--json leaves JSON lines untouched and wraps the others, so that every line can be read by a program", () => {
  assert.equal(formatJson("billing", line), line);
  const wrapped = JSON.parse(formatJson("relay", "plain words")) as Record<string, unknown>;
  assert.equal(wrapped["service"], "relay");
  assert.equal(wrapped["msg"], "plain words");
});
