import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { compileCache } from "#shared/testing/config.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-check-"));
after(() => rmSync(folder, { recursive: true }));

// Secrets of every sort; none of them is where a catalog is written.
const text = `upstreams:
  near:
    base_url: https://near.example
    dialects: [openai-chat]
    credential: { env: NEAR_KEY }
    headers: { OpenAI-Project: { env: NEAR_PROJECT }, OpenAI-Organization: org-1 }
    proxy: { env: EGRESS_PROXY }
    tls: { ca_file: /nowhere/ca.pem, cert_file: /nowhere/own.pem, key_file: /nowhere/own.key }
  far:
    base_url: https://far.example
    dialects: [openai-chat, openai-videos]
    credential: { file: /nowhere/far-key }
models:
  m-1:
    owned_by: somebody
    upstreams: [{ name: near }, { name: far }]
    context_tokens: 1000
    max_output_tokens: 100
    price: { version: v1, input_tokens: "1.25", output_tokens: "10" }
  film:
    owned_by: somebody
    upstreams: [{ name: far }]
    video: { seconds: [4], sizes: [720x1280] }
    price: { version: v1, media_ms: "100" }
`;

/** Runs the check as an operator does: how it ends, what it prints, what it says beside that. */
function check(catalog: string, environment: Record<string, string> = {}) {
  const file = join(folder, "catalog.yaml");
  writeFileSync(file, catalog);
  const words = [join(import.meta.dirname, "check.ts"), file];
  const { status, stdout, stderr } = spawnSync(process.execPath, words, {
    env: { ...compileCache(), ...environment },
    encoding: "utf8",
  });
  return { code: status, printed: stdout, said: stderr.replaceAll(file, "FILE").trim().split("\n") };
}

describe("the check of a catalog", () => {
  it("needs none of its secrets: prices are printed, and each secret that is not here is a warning", () => {
    const { code, printed, said } = check(text);
    assert.equal(code, 0);
    assert.match(printed, /^m-1 at near, far$/m);
    assert.match(printed, /^ +input_tokens +1\.25$/m);
    assert.match(printed, /^film at far$/m);
    assert.deepEqual(said, [
      "not here: the variable NEAR_KEY is not set",
      "not here: the variable NEAR_PROJECT is not set",
      "not here: the variable EGRESS_PROXY is not set",
      "not here: ENOENT: no such file or directory, open '/nowhere/ca.pem'",
      "not here: ENOENT: no such file or directory, open '/nowhere/own.pem'",
      "not here: ENOENT: no such file or directory, open '/nowhere/own.key'",
      "not here: ENOENT: no such file or directory, open '/nowhere/far-key'",
    ]);
  });

  it("finds what is wrong with the catalog all the same, with file and line", () => {
    const { code, printed, said } = check(
      text
        .replace("{ name: near }", "{ name: mien }")
        .replace('output_tokens: "10"', 'output_tokens: "10", tool_calls: "0"'),
    );
    assert.deepEqual([code, printed], [1, ""]);
    assert.deepEqual(said, [
      "FILE:16: there is no upstream mien",
      "FILE:19: tool_calls would be served for nothing: a price of 0 is refused",
    ]);
  });

  it("finds what is wrong with a secret that is here, and does not print it", () => {
    const own = { NEAR_KEY: "two\nlines", NEAR_PROJECT: "p", EGRESS_PROXY: "ftp://user:secret@proxy" };
    const { code, said } = check(text, own);
    assert.equal(code, 1);
    assert.match(said.join("\n"), /^FILE:2: Invalid character in header content \["credential"\]$/);
    const proxy = check(text, { ...own, NEAR_KEY: "one" });
    assert.deepEqual(proxy.said, ["FILE:2: proxy must be an http or https URL"]);
  });
});
