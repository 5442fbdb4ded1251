import assert from "node:assert/strict";
import { test } from "node:test";
import type { DialectName } from "../dialect.ts";
import { readFormBody } from "./form-body.ts";
import { dialects } from "../index.ts";
import { readJsonBody } from "./request-body.ts";

const base64 = Buffer.alloc(6_000, 7).toString("base64");
const letters = "A".repeat(960_000);
const png = `data:image/png;base64,${base64}`;

type Seen = { mediaBytes: readonly number[]; textBytes: number };

const seenIn = (text: string, dialect: DialectName): Seen => {
  const { mediaBytes, textBytes } = readJsonBody(Buffer.from(text), dialects[dialect].mediaPlaces);
  return { mediaBytes, textBytes };
};

function checkMedia(text: string, dialect: DialectName, media: string[]): void {
  const lengths = media.map(({ length }) => length);
  const textBytes = Buffer.byteLength(text) - lengths.reduce((sum, length) => sum + length, 0);
  assert.deepEqual(seenIn(text, dialect), { mediaBytes: lengths, textBytes }, text.slice(0, 200));
}

const ofChat = (part: unknown): object => ({
  messages: [{ role: "user", content: [{ type: "text", text: "x" }, part] }],
});
const ofMessages = (block: unknown): object => ({
  messages: [{ role: "user", content: [{ type: "text", text: "x" }, block] }],
});
const ofResponses = (part: unknown): object => ({
  input: [{ role: "user", content: [{ type: "input_text", text: "x" }, part] }],
});
const source = (data: unknown, more: object = {}): object => ({
  type: "base64",
  media_type: "image/png",
  data,
  ...more,
});

const mediaRows: [string, DialectName, object, string][] = [
  ["a picture", "openai-chat", ofChat({ type: "image_url", image_url: { url: png, detail: "low" } }), png],
  ["a picture whose address stands alone", "openai-chat", ofChat({ type: "image_url", image_url: png }), png],
  ["sound", "openai-chat", ofChat({ type: "input_audio", input_audio: { data: base64, format: "wav" } }), base64],
  [
    "a PDF",
    "openai-chat",
    ofChat({ type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${base64}` } }),
    `data:application/pdf;base64,${base64}`,
  ],
  [
    "a picture that a tool gave",
    "openai-chat",
    { messages: [{ role: "tool", tool_call_id: "c", content: [{ type: "image_url", image_url: { url: png } }] }] },
    png,
  ],
  ["a picture", "openai-responses", ofResponses({ type: "input_image", image_url: png }), png],
  [
    "a PDF",
    "openai-responses",
    ofResponses({ type: "input_file", file_data: `data:application/pdf;base64,${base64}` }),
    `data:application/pdf;base64,${base64}`,
  ],
  [
    "a picture that a tool gave",
    "openai-responses",
    { input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: png }] }] },
    png,
  ],
  [
    "a screenshot",
    "openai-compact",
    { input: [{ type: "computer_call_output", output: { type: "computer_screenshot", image_url: png } }] },
    png,
  ],
  [
    "a picture that the provider made",
    "openai-responses",
    { input: [{ type: "image_generation_call", id: "ig_1", result: base64 }] },
    base64,
  ],
  ["a picture", "anthropic-messages", ofMessages({ type: "image", source: source(base64) }), base64],
  [
    "a PDF, its kind behind it",
    "anthropic-messages",
    ofMessages({ type: "document", source: { data: base64, media_type: "application/pdf", type: "base64" } }),
    base64,
  ],
  [
    "a picture that a tool gave",
    "anthropic-messages",
    ofMessages({ type: "tool_result", tool_use_id: "t", content: [{ type: "image", source: source(base64) }] }),
    base64,
  ],
  [
    "a picture in a document of blocks that a tool gave",
    "anthropic-messages",
    ofMessages({
      type: "tool_result",
      content: [
        { type: "document", source: { type: "content", content: [{ type: "image", source: source(base64) }] } },
      ],
    }),
    base64,
  ],
  ["a picture to judge", "openai-moderations", { input: [{ type: "image_url", image_url: { url: png } }] }, png],
];
for (const [what, dialect, fields, media] of mediaRows) {
  test(`media counts as such, to its last byte: ${dialect}, ${what}`, () => {
    checkMedia(JSON.stringify(fields), dialect, [media]);
    checkMedia(JSON.stringify(fields, null, 2), dialect, [media]);
    // As PHP writes it.
    const escaped = JSON.stringify(fields).replaceAll("/", String.raw`\/`);
    checkMedia(escaped, dialect, [media.replaceAll("/", String.raw`\/`)]);
    for (const [at, sign] of [
      [media.length - 1, "!"],
      [media.length - 1_000, " "],
      [media.length - 4_000, "é"],
      [media.length - 4_000, "\\n"],
    ] as const) {
      const other = media.slice(0, at) + sign + media.slice(at + 1);
      checkMedia(JSON.stringify(fields).replace(media, other), dialect, []);
    }
  });
}

test("every byte that is not of the alphabet makes a text of it, wherever it lies in memory", () => {
  const sound = "AAAA".repeat(520);
  const allowed = /[A-Za-z0-9+/_=-]/;
  for (let byte = 32; byte < 127; byte += 1) {
    const character = String.fromCharCode(byte);
    if (character === '"' || character === "\\") continue;
    for (let shift = 0; shift < 8; shift += 1) {
      const at = 1_200 + ((byte * 7 + shift * 13) % 800);
      const data = sound.slice(0, at) + character + sound.slice(at + 1);
      const text = `{"${"x".repeat(shift)}":1,"messages":[{"content":[{"input_audio":{"data":"${data}"}}]}]}`;
      checkMedia(text, "openai-chat", allowed.test(character) ? [data] : []);
    }
  }
});

const textRows: [string, DialectName, string][] = [
  ["a message of letters", "openai-chat", JSON.stringify({ messages: [{ role: "user", content: letters }] })],
  ["a part of letters", "openai-chat", JSON.stringify(ofChat({ type: "text", text: letters }))],
  [
    "letters behind a picture's beginning",
    "openai-chat",
    JSON.stringify({ messages: [{ content: `data:image/png;base64,${letters}` }] }),
  ],
  [
    "a text in a field of media of another dialect",
    "openai-chat",
    JSON.stringify(ofChat({ type: "image", source: source(letters) })),
  ],
  [
    "a text as a file",
    "openai-chat",
    JSON.stringify(ofChat({ file: { file_data: `data:text/plain;base64,${letters}` } })),
  ],
  ["a file of an unknown kind", "openai-chat", JSON.stringify(ofChat({ file: { file_data: letters } }))],
  [
    "a drawing in words",
    "openai-chat",
    JSON.stringify(ofChat({ image_url: { url: `data:image/svg+xml;base64,${letters}` } })),
  ],
  [
    "an address that is not base64",
    "openai-chat",
    JSON.stringify(ofChat({ image_url: { url: `data:image/png,${letters}` } })),
  ],
  ["letters as an address", "openai-chat", JSON.stringify(ofChat({ image_url: { url: letters } }))],
  ["a list of addresses", "openai-chat", JSON.stringify(ofChat({ image_url: [`data:image/png;base64,${letters}`] }))],
  [
    "a tool's schema",
    "openai-chat",
    JSON.stringify({ tools: [{ function: { parameters: ofChat({ image_url: { url: png } }) } }] }),
  ],
  ["what is no message", "openai-chat", JSON.stringify({ metadata: ofChat({ image_url: { url: png } }) })],
  ["a name in escapes", "openai-chat", `{"messages":[{"content":[{"input_audio":{"d\\u0061ta":"${letters}"}}]}]}`],
  ["a name of letters", "openai-chat", JSON.stringify({ messages: [{ content: [{ [letters]: 1 }] }] })],
  [
    "the input of a call",
    "anthropic-messages",
    JSON.stringify(
      ofMessages({ type: "tool_use", input: { source: source(letters), content: [{ source: source(letters) }] } }),
    ),
  ],
  [
    "a source of text",
    "anthropic-messages",
    JSON.stringify(ofMessages({ type: "document", source: { type: "text", media_type: "text/plain", data: letters } })),
  ],
  [
    "a source whose type is a text's",
    "anthropic-messages",
    JSON.stringify(ofMessages({ type: "document", source: source(letters, { media_type: "text/plain" }) })),
  ],
  [
    "a source without a type",
    "anthropic-messages",
    JSON.stringify(ofMessages({ type: "document", source: { media_type: "image/png", data: letters } })),
  ],
  [
    "a source of two kinds",
    "anthropic-messages",
    `{"messages":[{"content":[{"source":{"type":"base64","media_type":"image/png","data":"${letters}","type":"text"}}]}]}`,
  ],
  [
    "a source of two kinds, one in escapes",
    "anthropic-messages",
    `{"messages":[{"content":[{"source":{"type":"base64","media_type":"image/png","data":"${letters}","t\\u0079pe":"text"}}]}]}`,
  ],
  [
    "a source of two media types",
    "anthropic-messages",
    `{"messages":[{"content":[{"source":{"type":"base64","media_type":"text/plain","media_type":"image/png","data":"${letters}"}}]}]}`,
  ],
  [
    "a source whose kind is no text",
    "anthropic-messages",
    JSON.stringify(ofMessages({ source: source(letters, { type: ["base64"] }) })),
  ],
  ["a list as data", "anthropic-messages", JSON.stringify(ofMessages({ source: source([letters]) }))],
  [
    "thinking of another turn",
    "anthropic-messages",
    JSON.stringify(ofMessages({ type: "redacted_thinking", data: letters })),
  ],
  ["an input", "openai-responses", JSON.stringify({ input: letters })],
  ["the result of another item", "openai-responses", JSON.stringify({ input: [{ type: "message", result: letters }] })],
  [
    "a list as a result",
    "openai-responses",
    JSON.stringify({ input: [{ type: "image_generation_call", result: [letters] }] }),
  ],
  [
    "encrypted reasoning",
    "openai-responses",
    JSON.stringify({ input: [{ type: "reasoning", encrypted_content: letters }] }),
  ],
  ["a prompt", "openai-completions", JSON.stringify({ prompt: letters })],
  ["a text to embed", "openai-embeddings", JSON.stringify({ input: [letters, { image_url: { url: png } }] })],
  ["a text to judge", "openai-moderations", JSON.stringify({ input: letters })],
  ["a text to speak", "openai-speech", JSON.stringify({ input: letters })],
  ["a prompt of a picture", "openai-images", JSON.stringify({ prompt: letters })],
];
for (const [what, dialect, text] of textRows) {
  test(`what is not known to be media is text, whatever it looks like: ${dialect}, ${what}`, () =>
    checkMedia(text, dialect, []));
}

test("media that is shorter than a page's tokens counts as text, which is less", () => {
  const chat = (data: string): string => JSON.stringify(ofChat({ input_audio: { data } }));
  checkMedia(chat("A".repeat(2_047)), "openai-chat", []);
  checkMedia(chat("A".repeat(2_048)), "openai-chat", ["A".repeat(2_048)]);
});

test("of a form only the file is counted as sound: a text that comes as a file is text", () => {
  const part = (name: string, content: string): string =>
    `--b\r\nContent-Disposition: form-data; name="${name}"; filename="x"\r\n\r\n${content}\r\n`;
  const form = Buffer.from(`${part("file", "RIFF")}${part("prompt", letters)}--b--\r\n`);
  const { mediaBytes, textBytes } = readFormBody(form, "multipart/form-data; boundary=b");
  assert.deepEqual([mediaBytes, textBytes], [[4], letters.length]);
});
