import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { until } from "#shared/testing/until.ts";
import { connectRaw } from "../testing/raw-client.ts";

// What the chart gives a relay of 2 GiB.
const heapMib = 1_024;
const relay = spawn(
  process.execPath,
  [`--max-old-space-size=${heapMib}`, join(import.meta.dirname, "../testing/lone-relay.ts")],
  { stdio: ["pipe", "pipe", "inherit"] },
);
const ended = once(relay, "exit");
after(async () => {
  relay.stdin.end();
  await ended;
});
const [line] = (await once(createInterface({ input: relay.stdout }), "line")) as [string];
const port = Number(line);

const mebibyte = 1024 * 1024;
const brotli = (text: Buffer): Buffer => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });

/** Text that fills a body between two ends. */
function filled(start: string, unit: string, end: string, bytes: number): Buffer {
  const body = Buffer.alloc(
    start.length + Math.floor((bytes - start.length - end.length) / unit.length) * unit.length + end.length,
    unit,
  );
  // The units begin behind the start.
  return Buffer.concat([
    Buffer.from(start),
    body.subarray(0, body.length - start.length - end.length),
    Buffer.from(end),
  ]);
}

/** A body is made when it is sent: all of them at once are gigabytes. */
type Sent = { path: string; body: () => Buffer; encoding?: "br" | "gzip"; contentType?: string };

async function statusOf({ path, body, encoding, contentType = "application/json" }: Sent): Promise<number> {
  const client = await connectRaw(port);
  const bytes = body();
  const encoded = encoding === "br" ? brotli(bytes) : encoding === "gzip" ? gzipSync(bytes, { level: 1 }) : bytes;
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: relay",
    "Authorization: Bearer sk-x",
    "provider-version: 2023-06-01",
    `Content-Type: ${contentType}`,
    `Content-Length: ${encoded.length}`,
    ...(encoding ? [`Content-Encoding: ${encoding}`] : []),
  ];
  client.socket.write(`${head.join("\r\n")}\r\n\r\n`);
  client.socket.write(encoded);
  await until(
    "it is answered",
    () => client.head() !== "" || relay.exitCode !== null || relay.signalCode !== null,
    120_000,
  );
  client.socket.destroy();
  return Number(/^HTTP\/1\.1 (\d+) /.exec(client.head())?.[1]);
}

const chat = (fields: string): string => `{"model":"m","messages":[]${fields}`;
const conversation = (fields: string): string =>
  `{"model":"converted","messages":[{"role":"user","content":"x"}]${fields}`;
const most = 127 * mebibyte;
const form = (name: string): Buffer =>
  filled(
    `--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`,
    "x",
    "\r\n--b--\r\n",
    most,
  );
const formType = "multipart/form-data; boundary=b";

const bodies: [string, Sent, number][] = [
  [
    "142 bytes that become 127 MB",
    {
      path: "/v1/audio/speech",
      body: () => filled('{"model":"m","voice":"v","input":"', "x", '"}', most),
      encoding: "br",
    },
    400,
  ],
  [
    "a text of 1 MB that was packed a hundredfold",
    {
      path: "/v1/audio/speech",
      body: () => filled('{"model":"m","voice":"v","input":"', "x", '"}', mebibyte),
      encoding: "gzip",
    },
    403,
  ],
  [
    "a text to speak of 127 MB",
    {
      path: "/v1/audio/speech",
      body: () => filled('{"model":"m","voice":"v","input":"', "x", '"}', most),
    },
    403,
  ],
  [
    "a list of millions in stream",
    { path: "/v1/chat/completions", body: () => filled(chat(',"stream":['), "[],", "[]]}", most) },
    400,
  ],
  [
    "an object of millions in n",
    {
      path: "/v1/chat/completions",
      body: () => filled(chat(',"n":{"a":['), "{},", "1]}}", 64 * mebibyte),
    },
    400,
  ],
  [
    "a text of 127 MB in stream",
    { path: "/v1/chat/completions", body: () => filled(chat(',"stream":"'), "x", '"}', most) },
    400,
  ],
  ["a model of 127 MB", { path: "/v1/responses", body: () => filled('{"model":"', "m", '"}', most) }, 400],
  ["a field's name of 127 MB", { path: "/v1/responses", body: () => filled('{"model":"m","', "a", '":1}', most) }, 400],
  [
    "a prompt list of millions",
    { path: "/v1/completions", body: () => filled('{"model":"m","prompt":[', '"",', '""]}', most) },
    400,
  ],
  ["a video's prompt of 127 MB", { path: "/v1/videos", body: () => filled('{"prompt":"', "é", '"}', most) }, 400],
  [
    "a picture for a video of separators",
    {
      path: "/v1/videos",
      body: () => filled('{"prompt":"x","input_reference":{"image_url":"data:', ";", ',"}}', most),
    },
    400,
  ],
  [
    "a form's model of 127 MB",
    { path: "/v1/audio/transcriptions", body: () => form("model"), contentType: formType },
    400,
  ],
  [
    "values of millions for a conversion",
    { path: "/v1/chat/completions", body: () => filled(conversation(',"x":['), "[],", "[]]}", most) },
    400,
  ],
  [
    "inputs of calls that hold millions",
    {
      path: "/v1/chat/completions",
      body: () =>
        filled(
          '{"model":"converted","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"type":"function","id":"c","function":{"name":"t","arguments":"{\\"a\\":[',
          "[],",
          '[]]}"}}]}]}',
          most,
        ),
    },
    400,
  ],
  [
    "an address of separators for a conversion",
    {
      path: "/v1/chat/completions",
      body: () =>
        filled(
          '{"model":"converted","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:',
          ";",
          ',x"}}]}]}',
          most,
        ),
    },
    // It is looked at once there is money for the call.
    403,
  ],
  [
    "a schema's reference of separators for a conversion",
    {
      path: "/v1/chat/completions",
      body: () =>
        filled(
          conversation(
            ',"tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object","properties":{"a":{"$ref":"#/',
          ),
          "/",
          '"}}}}}]}',
          most,
        ),
    },
    403,
  ],
  [
    "a namespace's name of signs for a conversion",
    {
      path: "/v1/responses",
      body: () =>
        filled(
          '{"model":"converted","input":"x","tools":[{"type":"namespace","name":"',
          "-!",
          `","tools":[${Array.from({ length: 1_000 }, (_, at) => `{"type":"function","name":"t${at}"}`).join(",")}]}]}`,
          4 * mebibyte,
        ),
    },
    400,
  ],
  [
    "a tool's name of signs for a conversion",
    {
      path: "/v1/chat/completions",
      body: () =>
        filled(conversation(',"tools":[{"type":"function","function":{"name":"'), "-!", '","parameters":{}}}]}', most),
    },
    400,
  ],
  [
    "one text of 127 MB for a conversion",
    {
      path: "/v1/chat/completions",
      body: () => filled('{"model":"converted","messages":[{"role":"user","content":"\u0416', "x", '"}]}', most),
    },
    403,
  ],
];

for (const [what, sent, status] of bodies) {
  test(`a relay with the chart's heap answers and lives on: ${what}`, { timeout: 300_000 }, async () => {
    assert.equal(await statusOf(sent), status);
    assert.equal(await statusOf({ path: "/v1/chat/completions", body: () => Buffer.from(`${chat("}")}`) }), 403);
  });
}
