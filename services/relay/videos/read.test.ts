import assert from "node:assert/strict";
import { test } from "node:test";
import { CallFailure } from "../failures.ts";
import { fitVideo, hashVideo, readVideo, type AskedVideo } from "./read.ts";
import { queryOf, readListQuery, readVariant } from "./read-query.ts";

const json = (value: unknown): Buffer => Buffer.from(typeof value === "string" ? value : JSON.stringify(value));

/** Name and words of what a caller is told. */
function told(work: () => unknown): [string, string | undefined] {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof CallFailure, String(error));
    return [error.failure.name, error.failure.detail];
  }
  throw new Error("it was taken");
}

test("fields that go nowhere are named in their order, of a form as of an object, and no more than a header can hold", () => {
  const fields = { quality: "high", prompt: "x", n: 2, negative_prompt: "dogs", model: "m", seconds: "8", size: "s" };
  const wanted = ["quality", "n", "negative_prompt"];
  assert.deepEqual(readVideo(json(fields)).dropped, wanted);
  const parts = Object.entries(fields).map(([name, value]) => part(name, String(value)));
  const picture = part("input_reference[image_url]", "https://example.com/a.png");
  const asked = readVideo(formOf(...parts, picture, part("loras", "a"), part("loras", "b")), formType);
  assert.deepEqual(asked.dropped, [...wanted, "loras"]);
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`field${index}`, 1]));
  assert.equal(readVideo(json({ prompt: "x", ...many })).dropped.length, 200);
});

const limits = { seconds: [4, 8, 12], sizes: ["720x1280", "1280x720"], takesReference: true, deadlineSeconds: 60 };

test("a JSON object is read; what is null or left out is not given, and the model is sora-2", () => {
  const asked = readVideo(json({ prompt: "x", seconds: 8, size: null, input_reference: null, other: [1], none: null }));
  assert.deepEqual(asked, {
    model: "sora-2",
    prompt: "x",
    seconds: 8,
    size: undefined,
    reference: undefined,
    dropped: ["other"],
  });
});

const boundary = "form-boundary";
const part = (name: string, value: string, file = ""): string =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${value}\r\n`;
const formOf = (...parts: string[]): Buffer => Buffer.from(`${parts.join("")}--${boundary}--\r\n`);
const formType = `multipart/form-data; boundary=${boundary}`;

test("a prompt of several lines is the same in a form and in JSON, so that it has one hash under one key", () => {
  const ofForm = readVideo(formOf(part("prompt", "one\r\ntwo")), formType).prompt;
  assert.equal(ofForm, readVideo(json({ prompt: "one\ntwo" })).prompt);
});

test("a form is read like the object, a picture as a file or by its address", () => {
  const file = part("input_reference", "picture", '; filename="a.png"');
  const asked = readVideo(formOf(part("prompt", "x"), part("seconds", "8"), part("model", "veo"), file), formType);
  assert.deepEqual([asked.model, asked.prompt, asked.seconds], ["veo", "x", "8"]);
  assert.ok(asked.reference && "content" in asked.reference);
  assert.equal(asked.reference.content.toString(), "picture");
  const address = part("input_reference[image_url]", "https://example.com/a.png");
  assert.deepEqual(readVideo(formOf(part("prompt", "x"), address), formType).reference, {
    address: "https://example.com/a.png",
  });
});

// What is sent, and what the caller is told.
const refused: [string, Buffer, string | undefined, string, RegExp | undefined][] = [
  ["no JSON", json("{"), undefined, "invalid_json", undefined],
  ["a list", json("[]"), undefined, "invalid_json", undefined],
  ["a field twice", json('{"prompt":"a","prompt":"b"}'), undefined, "invalid_json", undefined],
  ["no prompt", json({}), undefined, "field_required", /^prompt$/],
  ["an empty prompt", json({ prompt: "" }), undefined, "field_required", /^prompt$/],
  ["an empty model", json({ prompt: "x", model: "" }), undefined, "field_required", /^model$/],
  ["a prompt of another kind", json({ prompt: 7 }), undefined, "field_invalid", /prompt must be a string/],
  [
    "a model of another kind",
    json({ prompt: "x", model: ["m"] }),
    undefined,
    "field_invalid",
    /model must be a string/,
  ],
  ["a prompt without end", json({ prompt: "x".repeat(32_001) }), undefined, "field_invalid", /at most 32000/],
  ["NUL in the prompt", json({ prompt: "a\0b" }), undefined, "field_invalid", /NUL/],
  [
    "a picture by a file id",
    json({ prompt: "x", input_reference: { file_id: "f" } }),
    undefined,
    "field_invalid",
    /not supported/,
  ],
  ["a picture as text", json({ prompt: "x", input_reference: "f" }), undefined, "field_invalid", /must be a picture/],
  ["a picture without an address", json({ prompt: "x", input_reference: {} }), undefined, "field_invalid", /image_url/],
  ["no form", json("text"), formType, "field_invalid", /must be a multipart form/],
  [
    "a form with a file id",
    formOf(part("prompt", "x"), part("input_reference[file_id]", "f")),
    formType,
    "field_invalid",
    /not supported/,
  ],
  [
    "a form with a picture as text",
    formOf(part("prompt", "x"), part("input_reference", "f")),
    formType,
    "field_invalid",
    /must be a picture/,
  ],
  [
    "a form with a field twice",
    formOf(part("prompt", "x"), part("prompt", "y")),
    formType,
    "field_invalid",
    /multipart form/,
  ],
];

for (const [what, body, type, name, words] of refused) {
  test(`refused: ${what}`, () => {
    const [failure, detail] = told(() => readVideo(body, type));
    assert.equal(failure, name);
    if (words) assert.match(detail ?? "", words);
  });
}

const asked = (changes: Partial<AskedVideo> = {}): AskedVideo => ({
  model: "m",
  prompt: "x",
  seconds: undefined,
  size: undefined,
  reference: undefined,
  dropped: [],
  ...changes,
});

test("a length is a number or a text; what is left out is the model's first", () => {
  assert.deepEqual(fitVideo(asked(), limits), { seconds: 4, size: "720x1280" });
  for (const seconds of [8, "8"]) assert.equal(fitVideo(asked({ seconds }), limits).seconds, 8);
  assert.equal(fitVideo(asked({ size: "1280x720" }), limits).size, "1280x720");
});

test("API spec, Video generation errors: Value such as length or resolution unusable with the model: a sentence names the values that it offers", () => {
  const wanted = "field seconds must be 4, 8 or 12 for the model m";
  for (const seconds of [5, "5", "08", "8.0", 8.5, -8, "", true, ["8"], Infinity, Buffer.from("8")])
    assert.deepEqual(
      told(() => fitVideo(asked({ seconds }), limits)),
      ["field_invalid", wanted],
      String(seconds),
    );
  for (const size of ["1x1", "1280X720", "", 720, ["720x1280"]]) {
    const sentence = "field size must be 720x1280 or 1280x720 for the model m";
    assert.deepEqual(
      told(() => fitVideo(asked({ size }), limits)),
      ["field_invalid", sentence],
    );
  }
  const one = { ...limits, seconds: [8], takesReference: false };
  assert.deepEqual(told(() => fitVideo(asked({ seconds: 4 }), one))[1], "field seconds must be 8 for the model m");
  const [, words] = told(() => fitVideo(asked({ reference: { address: "https://a" } }), one));
  assert.equal(words, "field input_reference must be left out for the model m");
});

test("two requests have one hash when everything that is asked for is the same, and never otherwise", () => {
  const video = { model: "m", prompt: "x", seconds: 4, size: "s" };
  const hashes = [
    hashVideo(video, undefined),
    hashVideo({ ...video, model: "n" }, undefined),
    hashVideo({ ...video, prompt: "y" }, undefined),
    hashVideo({ ...video, seconds: 8 }, undefined),
    hashVideo({ ...video, size: "t" }, undefined),
    hashVideo(video, Buffer.from("a")),
    hashVideo(video, Buffer.from("b")),
    hashVideo({ ...video, model: 'm","x' }, undefined),
  ].map((bytes) => Buffer.from(bytes).toString("hex"));
  assert.equal(new Set(hashes).size, hashes.length);
  assert.ok(hashes.every((text) => text.length === 64));
  assert.equal(Buffer.from(hashVideo({ ...video }, Buffer.from("a"))).toString("hex"), hashes[5]);
});

test("a list is asked for by after, limit and order, as the OpenAI API has them", () => {
  assert.deepEqual(readListQuery(queryOf("/v1/videos")), { afterTaskId: "", limit: 20, isAscending: false });
  const query = queryOf("/v1/videos?after=video_1&limit=100&order=asc&other=1");
  assert.deepEqual(readListQuery(query), { afterTaskId: "video_1", limit: 100, isAscending: true });
  for (const wrong of ["limit=0", "limit=101", "limit=1.5", "limit=", "limit=1&limit=2", "limit=-1", "limit=1e1"])
    assert.match(told(() => readListQuery(queryOf(`/?${wrong}`)))[1] ?? "", /^query parameter limit /, wrong);
  for (const wrong of ["order=up", "order=", "order=ASC", "order=asc&order=asc"])
    assert.match(told(() => readListQuery(queryOf(`/?${wrong}`)))[1] ?? "", /^query parameter order /, wrong);
});

test("a file is one of three variants", () => {
  assert.equal(readVariant(queryOf("/content")), "video");
  assert.equal(readVariant(queryOf("/content?variant=thumbnail")), "thumbnail");
  for (const wrong of ["variant=poster", "variant=", "variant=video&variant=video"])
    assert.match(told(() => readVariant(queryOf(`/?${wrong}`)))[1] ?? "", /^query parameter variant /);
});
