import assert from "node:assert/strict";
import type { SeenPage } from "./browser.ts";

const all = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map((match) => match[1] ?? "");

/** What holds for every page: landmarks, one heading, labels, unique ids, no inline script or style, no caching. */
export function checkPage({ text, headers }: SeenPage, where: string): void {
  assert.match(text, /^<!doctype html><html lang="en">/, where);
  assert.equal(all(text, /<(h1)>/g).length, 1, `one h1: ${where}`);
  for (const landmark of ["header", "main", "footer"]) {
    assert.equal(all(text, new RegExp(`<(${landmark})[ >]`, "g")).length, 1, `one ${landmark}: ${where}`);
  }
  const withoutFiles = text.replaceAll(
    /<script (?:defer|type="module" blocking="render") src="\/static\/[\w./]+"><\/script>/g,
    "",
  );
  assert.doesNotMatch(withoutFiles, /<script|<style|\sstyle=|\son[a-z]+=|javascript:/i, where);
  const ids = all(text, /\sid="([^"]+)"/g);
  assert.equal(new Set(ids).size, ids.length, `ids are unique: ${where}: ${ids.join(" ")}`);
  const labelled = new Set(all(text, /<label[^>]* for="([^"]+)"/g));
  for (const [field] of text.matchAll(/<(?:input|select|textarea)[^>]*>/g)) {
    if (field.includes('type="hidden"')) continue;
    const id = /\sid="([^"]+)"/.exec(field)?.[1] ?? "";
    assert.ok(labelled.has(id), `a label for ${field}: ${where}`);
    for (const about of (/aria-describedby="([^"]+)"/.exec(field)?.[1] ?? "").split(" ").filter(Boolean)) {
      assert.ok(ids.includes(about), `${about} is there: ${where}`);
    }
    if (field.includes("aria-invalid")) assert.match(field, /aria-describedby="[^"]*-error"/, where);
  }
  for (const [form] of text.matchAll(/<form[^]*?<\/form>/g)) {
    if (form.includes('method="post"')) assert.match(form, /name="csrf"/, `a token in ${form}: ${where}`);
  }
  for (const anchor of all(text, /href="#([^"]+)"/g)) assert.ok(ids.includes(anchor), `#${anchor} is there: ${where}`);
  checkNesting(text, where);
  assert.equal(headers.get("cache-control"), "no-store", where);
  const policy = headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'/, where);
  assert.doesNotMatch(policy, /unsafe|\*/, where);
}

const empty = new Set(["meta", "link", "input", "!doctype", "rect", "path"]);

/** Tags close in the order in which they were opened. */
function checkNesting(text: string, where: string): void {
  const open: string[] = [];
  for (const match of text.matchAll(/<(\/?)([!a-z][a-z0-9]*)[^>]*>/g)) {
    const [, slash, name = ""] = match;
    if (empty.has(name)) continue;
    if (slash === "") open.push(name);
    else assert.equal(open.pop(), name, `tags are nested: ${where}`);
  }
  assert.deepEqual(open, [], where);
}
