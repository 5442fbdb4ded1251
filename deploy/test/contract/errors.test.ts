import assert from "node:assert/strict";
import { test } from "node:test";
import { specErrors } from "../../../services/relay/testing/spec-errors.ts";
import { renderErrorTable } from "./error-table.ts";
import { findSpec } from "./spec-file.ts";
import { specRows } from "./spec-rows.ts";

const spec = await findSpec();
const skip = spec ? false : "the spec is not here; name its file in SPEC_FILE";

/** The one row of the spec that begins so. */
function written(section: string, quote: string): string {
  const [text, ...more] = (spec ?? []).filter((row) => row.section === section && row.text.startsWith(`${quote} |`));
  assert.ok(text && more.length === 0, `${section}: ${quote}`);
  return text.text;
}

test("every row of the spec's tables Cases and Video generation errors has its error here, but the page without /v1, which is no error body", () => {
  const sections = ["Cases", "Video generation errors"];
  const listed = specRows.filter(({ section }) => sections.includes(section)).map(({ quote }) => quote);
  const told = new Set(specErrors.map(({ row }) => row ?? ""));
  assert.deepEqual(
    listed.filter((quote) => !told.has(quote)),
    ["Path without `/v1`"],
  );
  assert.deepEqual(
    [...told].filter((quote) => quote !== "" && !listed.includes(quote)),
    [],
  );
});

const ofCases = specErrors.filter(({ row, section }) => row !== undefined && section === undefined);

for (const { row, failure, formatA, formatB } of ofCases) {
  test(`the spec says so itself: ${row}, ${failure.name}`, { skip }, () => {
    const [, status = "", message = ""] = written("Cases", row ?? "").split(" | ");
    // The spec has no Format A for overload: 529 is not among its codes.
    const told = failure.name === "upstream_overloaded" ? [formatB] : [formatA, formatB];
    for (const each of told) {
      assert.ok(status.split(" or ").includes(String(each.status)), `${each.status} is not ${status}`);
      assert.ok(message.replaceAll("`", "").includes(each.message), `${message} does not say: ${each.message}`);
    }
    const code = /code `(\w+)`/.exec(message)?.[1];
    if (code !== undefined) assert.equal(formatA.code, code);
  });
}

for (const { row = "", section, failure, formatA } of specErrors.filter((error) => error.section !== undefined)) {
  test(`the spec says so itself of videos: ${row}, ${failure.name}`, { skip }, () => {
    const [, status = "", message = ""] = written(section ?? "", row).split(" | ");
    // "400 (404 when downloading the file), `code`": each of both is an error here.
    assert.ok(status.includes(String(formatA.status)), `${formatA.status} is not ${status}`);
    assert.ok(status.includes(`\`${formatA.code}\``), `${formatA.code} is not ${status}`);
    // Its one row without words of its own asks for a sentence.
    if (message.startsWith("`")) assert.equal(message, `\`${formatA.message}\``);
    else assert.equal(message, "English sentence giving the reason");
  });
}

test("the spec's table Errors has each error's type in Format B and its code in Format A", { skip }, () => {
  const statuses = (spec ?? []).filter(({ section, text }) => section === "Errors" && /^\d/.test(text));
  assert.equal(statuses.length, 8);
  const rowOf = (status: number): string[] =>
    statuses.find(({ text }) => text.split(" | ")[0]?.includes(String(status)))?.text.split(" | ") ?? [];
  for (const { failure, formatA, formatB } of specErrors) {
    const { name } = failure;
    // The spec knows no Idempotency-Key.
    if (name === "idempotency_key_reused") continue;
    // Told on /v1/videos only, where the spec has another rule for the type.
    if (formatA.status === 410) assert.equal(rowOf(410)[1], "none");
    else assert.equal(rowOf(formatB.status)[1], `\`${formatB.type}\``, name);
    const codes = rowOf(formatA.status)[2] ?? "";
    // "Main values": the spec leaves the code of its last case open.
    if (name === "not_processable") continue;
    assert.ok(codes.includes(formatA.code === "" ? "empty string" : `\`${formatA.code}\``), name);
  }
});

test("the spec's rule on Retry-After has each error's seconds", { skip }, () => {
  const rule = (spec ?? []).find(({ section, text }) => section === "Retry guidance" && text.startsWith("2. "))?.text;
  assert.match(
    rule ?? "",
    /60 for account and upstream rate-limit 429s, .* 5 for 503s \(60 for .* account at upstream\)/,
  );
  const secondsOf = (name: string, status: number): string | undefined => {
    // Told apart from other 503s because trying again does not help.
    if (name === "model_unavailable") return undefined;
    if (status === 429 || name === "upstream_account") return "60";
    return status === 503 ? "5" : undefined;
  };
  for (const { failure, formatA } of specErrors) {
    const { name, retryAfterSeconds } = failure;
    const wanted = name === "ip_rate" ? String(retryAfterSeconds) : secondsOf(name, formatA.status);
    assert.equal(formatA.retryAfter, wanted, name);
  }
});

test("the document's table shows both formats where they differ, and how long to wait", () => {
  const cells = new Map(
    renderErrorTable()
      .split("\n")
      .map((line) => line.slice(2, -2).split(" | "))
      .map(([name, _when, ...rest]) => [name, rest]),
  );
  assert.deepEqual(cells.get("`upstream_overloaded`"), [
    "Format A: 503; Format B: 529",
    "Format A: `The model service is temporarily unavailable, please try again later`; Format B: `Overloaded`",
    "`service_unavailable`",
    "`overloaded_error`",
    "5",
  ]);
  assert.deepEqual(cells.get("`key_invalid`"), ["401", "`Invalid API key`", "empty", "`authentication_error`", "none"]);
  assert.equal(cells.get("`ip_rate`")?.at(-1), "the seconds to wait");
  assert.equal(cells.get("`model_unavailable`")?.at(-1), "none; `x-should-retry: false`");
});
