import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { addToCatalog, diffOf, type CatalogAddition } from "./catalog-edit.ts";

const file = `# Kept by operations.
upstreams:
  near: # by contract
    base_url:   https://near.example   # aligned by hand
    dialects: [openai-chat]
# models follow
models:
    words:
        price: { version: "1", input_tokens: "0.50" }
# The end.`;

const upstream: CatalogAddition = {
  section: "upstreams",
  name: "far",
  entry: { base_url: "https://far.example", credential: { env: "FAR_KEY" } },
};
const model: CatalogAddition = {
  section: "models",
  name: "yes: #no",
  entry: { context_tokens: 1000, price: { version: "2026-11-01", input_tokens: "0.10" } },
};

function edited(text: string, additions = [upstream, model]) {
  const result = addToCatalog(text, additions);
  if (result.refusal !== undefined) assert.fail(result.refusal);
  return result;
}

describe("adding to a catalog", () => {
  it("puts entries behind the last of their section, indented like it, and leaves every other byte", () => {
    const { text, insertions } = edited(file);
    assert.deepEqual(text.split("\n"), [
      ...file.split("\n").slice(0, 5),
      "  far:",
      "    base_url: https://far.example",
      "    credential:",
      "      env: FAR_KEY",
      ...file.split("\n").slice(5, 9),
      '    "yes: #no":',
      "      context_tokens: 1000",
      "      price:",
      "        version: 2026-11-01",
      '        input_tokens: "0.10"',
      "# The end.",
    ]);
    assert.deepEqual(
      insertions.map(({ line, lines }) => [line, lines.length]),
      [
        [6, 4],
        [14, 5],
      ],
    );
  });

  it("is shown as the new lines with those around them", () => {
    const lines = diffOf(edited(file, [upstream])).split("\n");
    assert.deepEqual(lines.slice(0, 5), [
      "@@ line 6 @@",
      " " + "  near: # by contract",
      "     base_url:   https://near.example   # aligned by hand",
      "     dialects: [openai-chat]",
      "+  far:",
    ]);
    assert.equal(lines.at(-1), "     words:");
  });

  it("works at the end of a file without a line break, and keeps the breaks of Windows", () => {
    const short = "upstreams:\n  near: {}\nmodels:\n  words: {}";
    assert.match(edited(short).text, /words: \{\}\n {2}"yes: #no":\n/);
    const windows = edited(short.replaceAll("\n", "\r\n")).text;
    assert.equal(windows.replaceAll("\r\n", "").includes("\n"), false);
  });

  for (const [what, text, sentence] of [
    ["a name that is there", file.replace("near:", "far:"), /far is already among the upstreams/],
    ["a section in one line", file.replace(/upstreams:[^]*models follow/, "upstreams: {}"), /add to it by hand/],
    ["a section that is missing", "models:\n  words: {}\n", /The section upstreams is not written/],
    ["no catalog", "[", /cannot be read as a catalog/],
    [
      "a section that stands elsewhere, too",
      "upstreams: &all\n  near: {}\nmodels:\n  words: {}\nspare: *all\n",
      /add to it by hand/,
    ],
  ] as const) {
    it(`is refused for ${what}`, () => {
      const result = addToCatalog(text, [upstream, model]);
      assert.match(result.refusal ?? "", sentence);
    });
  }
});
