import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CatalogError } from "#shared/catalog/document.ts";
import type { Logger } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import { followUpstreams, parseUpstreams, type Upstreams } from "./catalog.ts";

const folder = mkdtempSync(join(tmpdir(), "video-upstreams-"));
after(() => rmSync(folder, { recursive: true }));

const environment = { STUDIO_KEY: "sk-value-of-the-studio" };
const studio = { base_url: "https://studio.example", dialects: ["openai-videos"], credential: { env: "STUDIO_KEY" } };
const veo = { ...studio, base_url: "https://veo.example", dialects: ["gemini-generate", "gemini-videos"] };
const chat = { ...studio, dialects: ["openai-chat"], credential: { env: "NOT_OURS" } };

const textOf = (upstreams: object): string => JSON.stringify({ upstreams, models: { m: { price: { odd: "1" } } } });
const parse = (upstreams: object): Upstreams => parseUpstreams(textOf(upstreams), "catalog.yaml", environment);

test("the upstreams for videos are read, with the relay's limits; of the others not even the credential", () => {
  const upstreams = parse({ studio, veo, chat });
  assert.deepEqual([...upstreams.keys()], ["studio", "veo"]);
  const found = upstreams.get("studio");
  assert.equal(found?.credential, environment.STUDIO_KEY);
  assert.deepEqual([found?.baseUrl.href, found?.dialects], ["https://studio.example/", ["openai-videos"]]);
  assert.deepEqual([found?.connectTimeoutMs, found?.totalTimeoutMs, found?.headers], [5_000, 3_600_000, []]);
});

test("limits of an upstream for videos are read", () => {
  assert.equal(parse({ studio: { ...studio, total_timeout_ms: "7" } }).get("studio")?.totalTimeoutMs, 7);
});

test("other upstreams may be written as this release does not know them", () => {
  assert.deepEqual([...parse({ studio, chat: { ...chat, of_a_later_release: "x" }, odd: "text" }).keys()], ["studio"]);
});

test("a catalog without upstreams for videos has none", () => {
  assert.equal(parse({ chat }).size, 0);
  assert.equal(parse({}).size, 0);
});

test("what is wrong with an upstream for videos is named, with its line and never with a secret", () => {
  const wrong: [object, RegExp][] = [
    [{ ...studio, credential: { env: "NOT_SET" } }, /^catalog\.yaml:1: the variable NOT_SET is not set$/],
    [{ ...studio, colour: "x" }, /^catalog\.yaml:1: colour is not a known field$/],
    [{ ...studio, max_concurrent: "none" }, /^catalog\.yaml:1: max_concurrent must be integer$/],
    [{ ...studio, base_url: "ftp://x" }, /base_url must match/],
    [{ ...studio, headers: { authorization: "sk-value-of-the-studio" } }, /authorization is the relay's own to set/],
  ];
  for (const [upstream, message] of wrong) {
    assert.throws(
      () => parse({ upstream }),
      (error) => {
        assert.ok(error instanceof CatalogError);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /sk-value/);
        return true;
      },
    );
  }
  assert.throws(() => parseUpstreams("models: {}", "catalog.yaml", environment), CatalogError);
});

test("the file is followed: another upstream replaces, a broken file is refused and the last good one stays", async () => {
  const file = join(folder, "catalog.yaml");
  writeFileSync(file, textOf({ studio }));
  const replaced: string[][] = [];
  const refused: unknown[] = [];
  const log = { info: () => undefined, error: (told: unknown) => refused.push(told) } as unknown as Logger;
  using live = followUpstreams(file, environment, log, {
    onReplaced: (upstreams) => replaced.push([...upstreams.keys()]),
  });
  const before = live.current().get("studio");
  writeFileSync(file, textOf({ studio: { ...studio, base_url: "https://other.example" }, veo }));
  await until("the change is seen", () => replaced.length === 1);
  assert.deepEqual(replaced, [["studio", "veo"]]);
  assert.notEqual(live.current().get("studio")?.id, before?.id);
  writeFileSync(file, "upstreams: [");
  await until("the broken file is refused", () => refused.length === 1);
  assert.deepEqual([live.current().size, live.isStale()], [2, true]);
});

test("a first file that cannot be used throws", () => {
  const file = join(folder, "first.yaml");
  writeFileSync(file, textOf({ studio: { ...studio, credential: { env: "NOT_SET" } } }));
  assert.throws(() => followUpstreams(file, environment, {} as Logger), CatalogError);
});
