import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repository } from "../../tools/checks/run.ts";

const programs = {
  LangChain: "python/langchain_client.py",
  LlamaIndex: "python/llamaindex_client.py",
  "pydantic-ai": "python/pydantic_client.py",
  instructor: "python/instructor_client.py",
  "openai-agents": "python/agents_client.py",
  litellm: "python/litellm_client.py",
  "Vercel AI SDK": "node/ai-sdk.ts",
};

const linesOf = (text: string): string[] => text.split("\n").map((line) => line.trim());
const [, frameworks = ""] = readFileSync(join(repository, "services/relay/README.md"), "utf8").split(
  "\n## Frameworks\n",
);
const [section = ""] = frameworks.split("\n## ");

test("each framework of the README is one that runs", () => {
  const headings = [...section.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading);
  assert.deepEqual(headings, Object.keys(programs));
});

for (const [heading, file] of Object.entries(programs)) {
  test(`what the README shows for ${heading} is what ${file} runs`, () => {
    const [, recipe = ""] = section.split(`### ${heading}\n`);
    const [, code = ""] = /^```\w+\n(.*?)^```$/ms.exec(recipe) ?? [];
    const run = new Set(linesOf(readFileSync(join(import.meta.dirname, file), "utf8")));
    assert.ok(code.length > 0);
    assert.deepEqual(
      linesOf(code).filter((line) => !run.has(line)),
      [],
    );
  });
}
