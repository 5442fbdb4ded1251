import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, mkdtempDisposable, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { copyTemplate, templateFolder, templatePassword } from "./postgres-template.ts";

/** As initdb, which makes the folder and what is in it. */
async function initialise(folder: string, password: string): Promise<void> {
  await mkdir(join(folder, "base"), { recursive: true, mode: 0o700 });
  await writeFile(join(folder, "base", "made-with"), password);
}

test("those who make the template at the same time all get a copy of the one that stays, and leave nothing else", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "relay-template-"));
  const template = join(folder.path, "cache", "key");
  const copies = Array.from({ length: 8 }, (_none, index) => join(folder.path, `copy-${index}`));
  let made = 0;
  const counted = async (place: string, password: string): Promise<void> => {
    made += 1;
    await initialise(place, password);
  };
  await Promise.all(copies.map((copy) => copyTemplate(template, copy, counted)));
  const password = await templatePassword(template);
  for (const copy of copies) assert.equal(readFileSync(join(copy, "base", "made-with"), "utf8"), password);
  assert.deepEqual(readdirSync(join(folder.path, "cache")), ["key"]);
  assert.equal(statSync(template).mode & 0o777, 0o700);
  const before = made;
  await copyTemplate(template, join(folder.path, "later"), counted);
  assert.equal(made, before);
});

test("a template that could not be made leaves nothing behind and is made by the next one", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "relay-template-"));
  const template = join(folder.path, "cache", "key");
  const copy = join(folder.path, "copy");
  await assert.rejects(
    copyTemplate(template, copy, () => Promise.reject(new Error("no space"))),
    /no space/,
  );
  assert.deepEqual(readdirSync(join(folder.path, "cache")), []);
  await copyTemplate(template, copy, initialise);
  assert.deepEqual(readdirSync(copy), ["base"]);
});

test("another server program, or another version in its place, has another template", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "relay-template-"));
  const [one, other] = [join(folder.path, "one"), join(folder.path, "other")];
  for (const file of [one, other]) await writeFile(file, "");
  assert.equal(templateFolder(one, "/x"), templateFolder(one, "/x"));
  assert.notEqual(templateFolder(one, "/x"), templateFolder(other, "/x"));
  const before = templateFolder(one, "/x");
  await utimes(one, 1, 1);
  assert.notEqual(templateFolder(one, "/x"), before);
});
