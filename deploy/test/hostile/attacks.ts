import { type Attack, bombOf, json, packed } from "./attack.ts";
import { filled, mebibyte } from "./filled.ts";
import { drips, floodsOfRequests, slowReaders, unreadAnswers, unreadEvents } from "./connections.ts";
import { sockets } from "./sockets.ts";

const most = 127 * mebibyte;
const user = '[{"role":"user","content":"x"}]';
const chatOf = (model: string, fields: string): string => `{"model":"${model}","messages":${user}${fields}`;
const chatPath = "/v1/chat/completions";
const responsesPath = "/v1/responses";
const speechPath = "/v1/audio/speech";
const embeddingsPath = "/v1/embeddings";

const nested = (levels: number): Buffer =>
  Buffer.from(`${chatOf("passed", ',"x":')}${"[".repeat(levels)}${"]".repeat(levels)}}`);

const pairs = (count: number): Buffer => {
  const input = Array.from({ length: count }, (_, at) => [
    { role: "user", content: `question ${at}` },
    { role: "assistant", content: `answer ${at}` },
  ]);
  return Buffer.from(JSON.stringify({ model: "to-anthropic", input: input.flat() }));
};

const turns = (model: string, bytes: number): Buffer => {
  const turn = (role: string): string => `{"role":"${role}","content":"${"word ".repeat(200)}"}`;
  const unit = `${turn("user")},${turn("assistant")},`;
  return filled({ start: `{"model":"${model}","messages":[`, unit, end: `${turn("user")}]}` }, bytes);
};

const tools = (model: string, bytes: number): Buffer => {
  const tool = (name: string): string =>
    `{"type":"function","function":{"name":"${name}","description":"${"x".repeat(3_000)}","parameters":` +
    `{"type":"object","properties":{"a":{"type":"string"}}}}}`;
  const unit = `${tool("t")},`;
  return filled({ start: chatOf(model, ',"tools":['), unit, end: `${tool("u")}]}` }, bytes);
};

const keys = (count: number): Buffer => {
  const fields = Array.from({ length: count }, (_, at) => `"k${at}":1`);
  return Buffer.from(`${chatOf("passed", ',"x":{')}${fields.join(",")}}}`);
};

const formType = "multipart/form-data; boundary=b";
const part = (name: string, file = ""): string =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n`;
const form = (start: string, end: string): Buffer => filled({ start, unit: "x", end: `${end}\r\n--b--\r\n` }, most);
const soundStart = `${part("model")}transcribed\r\n${part("file", '; filename="a.wav"')}`;
const formPath = "/v1/audio/transcriptions";
const asForm = { contentType: formType };

const text =
  (start: string, unit: string, end: string, bytes = most) =>
  (): Buffer =>
    filled({ start, unit, end }, bytes);

const message = (model: string): string => `{"model":"${model}","messages":[{"role":"user","content":"`;
const scalar = (field: string, model = "passed"): string => chatOf(model, `,"${field}":[`);

/** What callers send: bodies. */
const bodies: Attack[] = [
  json("a message of 127 MB, brotli", chatPath, packed("br", text(message("passed"), "x", '"}]}'))),
  json("a message of 127 MB, gzip", chatPath, packed("gzip", text(message("passed"), "x", '"}]}'))),
  json("a message of 127 MB, zstd", chatPath, packed("zstd", text(message("passed"), "x", '"}]}'))),
  json("a message of 127 MB, plain", chatPath, { body: text(message("passed"), "x", '"}]}') }),
  json("a message of 127 MB to another dialect", chatPath, packed("br", text(message("to-gemini"), "x", '"}]}'))),
  json("bombs of 1 GB", chatPath, bombOf("br")),
  json("bombs of 1 GB in gzip in gzip", chatPath, bombOf("gzip")),
  json("a list of 64 MB in stream", chatPath, packed("gzip", text(scalar("stream"), "[],", "[]]}", 64 * mebibyte))),
  json("a list of 64 MB in n", chatPath, packed("gzip", text(scalar("n"), "0,", "0]}", 64 * mebibyte))),
  json("256 levels", chatPath, { body: () => nested(255) }),
  json("257 levels", chatPath, { body: () => nested(257) }),
  json("100,000 levels", chatPath, { body: () => nested(100_000) }),
  json("490,000 values", chatPath, { body: text(scalar("x"), "0,", "0]}", 980_000) }),
  json("490,000 values to another dialect", chatPath, { body: text(scalar("x", "to-gemini"), "0,", "0]}", 980_000) }),
  json("1,000,000 keys", chatPath, { body: () => keys(1_000_000) }),
  json("40,000 pairs to Anthropic", responsesPath, { body: () => pairs(40_000) }),
  json("12 MB of chat to Anthropic", chatPath, { body: () => turns("to-anthropic", 12 * mebibyte) }),
  json("12 MB of chat to Gemini", chatPath, { body: () => turns("to-gemini", 12 * mebibyte) }),
  json("64 MB of tools", chatPath, { body: () => tools("passed", 64 * mebibyte) }),
  json("64 MB of tools to Anthropic", chatPath, { body: () => tools("to-anthropic", 64 * mebibyte) }),
  json("127 MB of blanks in tools", chatPath, packed("br", text(chatOf("passed", ',"tools":['), " ", "]}"))),
  json("127 MB of escapes in input", responsesPath, packed("br", text('{"model":"passed","input":"', "\\u0041", '"}'))),
  json(
    "speech of 64 MB",
    speechPath,
    packed("br", text('{"model":"spoken","voice":"v","input":"', "é", '"}', 64 * mebibyte)),
  ),
  json("a form of 127 MB", formPath, { body: () => form(soundStart, ""), ...asForm }),
  json("a form of 127 MB whose model stands twice", formPath, {
    body: () => form(soundStart, `\r\n${part("model")}other`),
    ...asForm,
  }),
  json("a form of 127 MB of almost boundaries", formPath, {
    body: () => filled({ start: soundStart, unit: "\r\n--", end: "\r\n--b--\r\n" }, most),
    ...asForm,
  }),
  json("100,000 inputs to embed", embeddingsPath, {
    body: text('{"model":"embedded","input":[', '"ten letter",', '"x"]}', 1_300_000),
  }),
  json("100,000 inputs to embed at Gemini", embeddingsPath, {
    body: text('{"model":"embedded-at-gemini","input":[', '"ten letter",', '"x"]}', 1_300_000),
  }),
];

const asked = (model: string, stream = false) => ({ body: () => Buffer.from(chatOf(model, `,"stream":${stream}}`)) });

/** What upstreams send. */
const answers: Attack[] = [
  json("an answer of 100 MB", chatPath, asked("answer-100mb")),
  json("an answer of 60 MB", chatPath, asked("answer-60mb")),
  json("an answer of 60 MB in another dialect", "/v1/messages", {
    body: () => Buffer.from(chatOf("answer-60mb", ',"max_tokens":9}')),
  }),
  json("an answer of 8,000,000 values", chatPath, asked("answer-wide")),
  json("embeddings of 40 MB in the other encoding", embeddingsPath, {
    body: () => Buffer.from('{"model":"answer-vectors","input":"x","encoding_format":"base64"}'),
  }),
  json("an event of 12 MB", chatPath, asked("event-12mb", true)),
  json("an event of 12 MB of values", chatPath, asked("event-wide", true)),
  json("an event of 4,000,000 lists", chatPath, asked("event-lists", true)),
  json("an event of 2,500,000 lines", chatPath, asked("event-lines", true)),
  json("an event of 12 MB in pieces of 1,400 bytes", chatPath, asked("event-pieces", true)),
  json("an event of 200 MB", chatPath, asked("event-200mb", true)),
  json("200,000 tiny events", chatPath, asked("event-tiny", true)),
  json("20,000 heads of status 103", chatPath, asked("heads-103")),
  json("endless headers", chatPath, asked("heads-endless")),
];

export const attacks: Attack[] = [
  ...bodies,
  ...answers,
  drips,
  slowReaders,
  unreadAnswers,
  unreadEvents,
  ...floodsOfRequests,
  ...sockets,
];
