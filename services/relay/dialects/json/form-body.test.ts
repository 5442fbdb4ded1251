import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FormError, readFormBody } from "./form-body.ts";
import type { RequestBody } from "./request-body.ts";

const type = "multipart/form-data; boundary=b0";
const partOf = (head: string, content: string): string => `--b0\r\n${head}\r\n\r\n${content}\r\n`;
const field = (name: string, content: string): string =>
  partOf(`Content-Disposition: form-data; name="${name}"`, content);
const fileOf = (content: string): string =>
  partOf('Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', content);
const formOf = (...parts: string[]): Buffer => Buffer.from(`${parts.join("")}--b0--\r\n`);
const refused = (bytes: Buffer, contentType = type): void =>
  assert.throws(() => readFormBody(bytes, contentType), FormError);

/** A form as a standard client writes it. */
async function formOfClient(entries: [string, string | Blob][]): Promise<RequestBody> {
  const form = new FormData();
  for (const [name, value] of entries) form.append(name, value);
  const response = new Response(form);
  return readFormBody(Buffer.from(await response.arrayBuffer()), response.headers.get("content-type") ?? "");
}

test("fields are read as text and files as bytes, whatever they hold", async () => {
  const texts = fc.string({ unit: "binary", maxLength: 50 }).map((text) => text.replaceAll(/\r\n|\r|\n/g, "\r\n"));
  const whole = texts.filter((text) => text.isWellFormed());
  await fc.assert(
    fc.asyncProperty(whole, fc.uint8Array({ maxLength: 300 }), async (prompt, sound) => {
      const audio: Uint8Array<ArrayBuffer> = new Uint8Array(sound);
      const body = await formOfClient([
        ["model", "whisper"],
        ["file", new Blob([audio])],
        ["prompt", prompt],
      ]);
      assert.equal(body.read("model"), "whisper");
      assert.equal(body.read("prompt"), prompt);
      assert.deepEqual(new Uint8Array(body.read("file") as Buffer), new Uint8Array(sound));
      assert.deepEqual(body.mediaBytes, [sound.length]);
      assert.equal(body.has("language"), false);
    }),
  );
});

test("another model name is the only thing that changes", () => {
  const bytes = formOf(field("model", "ours"), fileOf("RIFF\0\r\n--b"), field("prompt", "model"));
  const body = readFormBody(bytes, type);
  assert.equal(
    body.rewrite({ replace: { model: "theirs-long" } }).toString(),
    bytes.toString().replace("ours", "theirs-long"),
  );
  assert.equal(body.rewrite({ replace: { absent: "x" } }), bytes);
});

test("a boundary in quotes, and behind other parameters", () => {
  const bytes = formOf(field("model", "m"));
  for (const contentType of [
    'multipart/form-data; boundary="b0"',
    "Multipart/Form-Data;boundary=b0",
    "multipart/form-data; charset=utf-8; boundary=b0",
  ]) {
    assert.equal(readFormBody(bytes, contentType).read("model"), "m");
  }
});

test("a field that stands twice is refused when it is read: the upstream might obey the other one", () => {
  const body = readFormBody(formOf(field("model", "cheap"), field("model", "dear")), type);
  assert.throws(() => body.read("model"), FormError);
  assert.throws(() => body.has("model"), FormError);
});

const oddHeads = [
  'Content-Disposition: form-data; filename="; name=\\"x\\""; name="model"',
  "Content-Disposition: form-data; name=model",
  'Content-Disposition: form-data; name="a"; name="model"',
  'Content-Disposition: attachment; name="model"',
  'Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="model"',
  "Content-Type: text/plain",
];
for (const head of oddHeads) {
  test(`a part is refused whose name could be read in two ways: ${JSON.stringify(head)}`, () => {
    refused(formOf(partOf(head, "x")));
  });
}

const plain = 'Content-Disposition: form-data; name="a"';
for (const more of ["Content-Transfer-Encoding: base64", "content-transfer-encoding:quoted-printable", "X: a\r\n b"]) {
  test(`a part is refused that parsers take for different content: ${JSON.stringify(more)}`, () => {
    refused(formOf(partOf(`${plain}\r\n${more}`, "x")));
    refused(formOf(partOf(`${more}\r\n${plain}`, "x")));
  });
}

test("a part may say that it is not encoded", () => {
  for (const encoding of ["7bit", "8bit", "binary "]) {
    readFormBody(formOf(partOf(`${plain}\r\nContent-Transfer-Encoding: ${encoding}`, "x")), type);
  }
});

test("a field that decides must not come as a file", () => {
  const body = readFormBody(formOf(partOf('Content-Disposition: form-data; name="n"; filename="x"', "2")), type);
  assert.throws(() => body.read("n"), /field n must not be a file/);
});

test("what is not a form is refused", () => {
  refused(formOf(field("model", "m")), "application/json");
  refused(formOf(field("model", "m")), "multipart/form-data");
  refused(Buffer.from(""));
  refused(Buffer.from("--b0"));
  refused(Buffer.from("--b0\r\n"));
  refused(Buffer.from('--b0\r\nContent-Disposition: form-data; name="a"\r\n\r\nno end'));
  refused(formOf(...Array.from({ length: 201 }, (_, index) => field(`f${index}`, "x"))));
  refused(formOf(partOf(`Content-Disposition: form-data; name="${"n".repeat(5_000)}"`, "x")));
  assert.equal(readFormBody(Buffer.from("--b0--"), type).has("model"), false);
});

test("any bytes give a form or a FormError, never another error and never an endless search", () => {
  const pieces = fc.constantFrom(
    "--b0",
    "\r\n",
    "--",
    'Content-Disposition: form-data; name="a"',
    "\r\n\r\n",
    "x",
    "\0",
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => {
      try {
        readFormBody(Buffer.from(parts.join("")), type);
      } catch (error) {
        assert.ok(error instanceof FormError);
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a form that parsers cut in different ways is refused", () => {
  const form = formOf(field("model", "m"), fileOf("sound"));
  readFormBody(form, "multipart/form-data; boundary=b0; charset=utf-8");
  for (const twice of ["boundary=b1; boundary=b0", "boundary=b0; Boundary=b1", "boundary*0=b1; boundary=b0"]) {
    refused(form, `multipart/form-data; ${twice}`);
  }
  const hidden = 'Content-Disposition: form-data; name="model"';
  for (const end of ["\n", "\r"]) {
    refused(formOf(partOf(`X-Note: a${end}${hidden}`, "dearer"), field("model", "m")));
    refused(formOf(partOf(`Content-Disposition: form-data; name="prompt"${end}X: y`, "dearer")));
  }
  refused(formOf(field("prompt", `x\n--b0\n${hidden}\n\ndearer`)));
  const behind = partOf(hidden, "dearer");
  for (const start of ["\r\n", "\n", ""]) refused(Buffer.concat([form, Buffer.from(start), formOf(behind)]));
  readFormBody(Buffer.concat([form, Buffer.from("\r\nan epilogue\r\n")]), type);
});
