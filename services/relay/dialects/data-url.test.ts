import assert from "node:assert/strict";
import { test } from "node:test";
import { dataUrl, readSource } from "./data-url.ts";

const rows: [string, string, object][] = [
  ["an address stays one", "https://a.example/b.png", { kind: "url", url: "https://a.example/b.png" }],
  ["base64", "data:image/png;base64,QUJD", { kind: "base64", mediaType: "image/png", data: "QUJD" }],
  [
    "parameters",
    "data:text/plain;charset=utf-8;base64,QUJD",
    { kind: "base64", mediaType: "text/plain", data: "QUJD" },
  ],
  ["blanks in it", "data:image/png;base64,QU\n JD", { kind: "base64", mediaType: "image/png", data: "QUJD" }],
  ["percent signs", "data:image/png;base64,QUJDRA%3D%3D", { kind: "base64", mediaType: "image/png", data: "QUJDRA==" }],
  ["no base64", "data:text/plain,a%20b", { kind: "base64", mediaType: "text/plain", data: "YSBi" }],
  ["a broken escape", "data:text/plain,100%", { kind: "base64", mediaType: "text/plain", data: "MTAwJQ==" }],
  ["no type", "data:,x", { kind: "base64", mediaType: "text/plain", data: "eA==" }],
  ["a head of parameters only", `data:${";".repeat(300)},x`, { kind: "url", url: `data:${";".repeat(300)},x` }],
  ["no comma", "data:image/png", { kind: "url", url: "data:image/png" }],
];
for (const [what, address, source] of rows) {
  test(`an address of content is read: ${what}`, () => assert.deepEqual(readSource(address), source));
}

test("a data address is read as it was written", () => {
  assert.deepEqual(readSource(dataUrl("image/gif", "QUJD")), { kind: "base64", mediaType: "image/gif", data: "QUJD" });
});
