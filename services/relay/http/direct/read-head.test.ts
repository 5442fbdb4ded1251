import assert from "node:assert/strict";
import { createServer } from "node:http";
import { Duplex } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { directLimits, readDirectHead } from "./read-head.ts";

const path = "/v1/chat/completions";
const paths = new Set([path, "/v1/messages"]);

type ReadRequest = { url: string; headers: object; rawHeaders: string[]; body: string };

/** Both ends of a connection in memory: what is pushed is what came. */
class Wire extends Duplex {
  override _read(): void {
    // Pushed from outside.
  }
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
  }
}

/** How Node reads what comes on a connection: its requests, whole ones only. */
function createJudge(): (bytes: Buffer) => Promise<ReadRequest[]> {
  let requests: ReadRequest[] = [];
  const server = createServer({ requireHostHeader: false, maxHeaderSize: 32_768 }, (request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const { url = "", headers, rawHeaders, method } = request;
      const body = Buffer.concat(pieces).toString("latin1");
      requests.push({ url: `${method} ${url}`, headers: { ...headers }, rawHeaders, body });
      response.end();
    });
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  return async (bytes) => {
    requests = [];
    const wire = new Wire();
    const over = new Promise<void>((resolve) => void wire.once("close", resolve));
    server.emit("connection", wire);
    wire.push(bytes);
    wire.push(null);
    await over;
    return requests;
  };
}

const next = `POST ${path} HTTP/1.1\r\nHost: next\r\nContent-Length: 4\r\n\r\nnext`;

/**
 * Checks one message against Node: what is taken here, Node takes, reads alike, and ends at the same byte, which what
 * comes behind it shows. Tells whether it was taken.
 */
async function compare(judge: ReturnType<typeof createJudge>, message: Buffer): Promise<boolean> {
  const head = readDirectHead(message, paths);
  if (!head) return false;
  const whole = message.subarray(0, head.end);
  // A body that has not all come is filled up.
  const filled = Buffer.concat([whole, Buffer.alloc(head.end - whole.length, 120)]);
  const [first, second, ...more] = await judge(Buffer.concat([filled, Buffer.from(next)]));
  const seen = JSON.stringify(message.toString("latin1"));
  const { url, headers, rawHeaders, bodyStart } = head;
  const expected = { url: `POST ${url}`, headers, rawHeaders, body: filled.toString("latin1", bodyStart) };
  assert.deepEqual(first, expected, `Node reads ${seen} in another way`);
  assert.equal(second?.body, "next", `Node finds another end of ${seen}`);
  assert.equal(more.length, 0);
  return true;
}

const plain = (fields = "", body = "{}"): string =>
  `POST ${path} HTTP/1.1\r\nHost: relay\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;

test("a plain call is read as Node reads it", async () => {
  const judge = createJudge();
  const taken = [
    plain(),
    plain("Authorization: Bearer sk-x\r\nConnection: Keep-Alive\r\nX-Stainless-Lang: js\r\n"),
    plain("Empty-No:x\r\n"),
    plain('Accept: */*\r\nUser-Agent: a (b; c) d/1.0 "e"\r\n', "x".repeat(directLimits.bodyBytes)),
  ];
  for (const message of taken) assert.ok(await compare(judge, Buffer.from(message)), message.slice(0, 200));
});

const strange: readonly [string, string][] = [
  ["another method", plain().replace("POST", "GET")],
  ["a path of nothing", plain().replace(path, "/v1/nothing")],
  ["a query", plain().replace(path, `${path}?a=b`)],
  ["a target in absolute form", plain().replace(path, `http://relay${path}`)],
  ["HTTP/1.0", plain().replace("HTTP/1.1", "HTTP/1.0")],
  ["HTTP/1.11", plain().replace("HTTP/1.1", "HTTP/1.11")],
  ["two spaces", plain().replace("POST ", "POST  ")],
  ["an empty line before it", `\r\n${plain()}`],
  ["no host", plain().replace("Host: relay\r\n", "")],
  ["two hosts", plain("Host: other\r\n")],
  ["two lengths", plain("Content-Length: 2\r\n")],
  ["no length", plain().replace("Content-Length: 2\r\n", "")],
  ["a length of nothing", plain("", "")],
  ["a length in hexadecimals", plain().replace("Length: 2", "Length: 0x2")],
  ["a length with a sign", plain().replace("Length: 2", "Length: +2")],
  ["a length with a zero before it", plain().replace("Length: 2", "Length: 02")],
  ["a list of lengths", plain().replace("Length: 2", "Length: 2, 2")],
  ["a large body", plain("", "x".repeat(directLimits.bodyBytes + 1))],
  ["chunks", plain("Transfer-Encoding: chunked\r\n")],
  ["chunks by another case", plain("tRANSFER-eNCODING: chunked\r\n")],
  ["chunks with a space before the colon", plain("Transfer-Encoding : chunked\r\n")],
  ["chunks behind a tab", plain("Transfer-Encoding:\tchunked\r\n")],
  ["chunks that are folded", plain("Transfer-Encoding:\r\n chunked\r\n")],
  ["chunks behind a bare CR", plain("X: y\rTransfer-Encoding: chunked\r\n")],
  ["chunks behind a bare LF", plain("X: y\nTransfer-Encoding: chunked\r\n")],
  ["a head with bare LFs", plain().replaceAll("\r\n", "\n")],
  ["a compressed body", plain("Content-Encoding: gzip\r\n")],
  ["an expectation", plain("Expect: 100-continue\r\n")],
  ["an upgrade", plain("Upgrade: h2c\r\nConnection: Upgrade\r\n")],
  ["a connection to be closed", plain("Connection: close\r\n")],
  ["a connection to be closed, for proxies", plain("Proxy-Connection: close\r\n")],
  ["a connection field that names others", plain("Connection: keep-alive, content-length\r\n")],
  ["a NUL in a value", plain("X: a\0b\r\n")],
  ["an octet above ASCII in a value", plain("X: a\u00e9b\r\n")],
  ["a tab in a value", plain("X: a\tb\r\n")],
  ["a space behind a value", plain("X: a \r\n")],
  ["an empty value", plain("X:\r\n")],
  ["an underscore in a name", plain("X_Y: z\r\n")],
  ["a name of nothing", plain(": z\r\n")],
  ["a line without a colon", plain("xyz\r\n")],
  ["a name that every object has", plain("constructor: z\r\n")],
  ["another name that every object has", plain("__proto__: z\r\n")],
  ["the same field twice", plain("X: a\r\nx: b\r\n")],
  ["many fields", plain(Array.from({ length: directLimits.fields }, (_, at) => `X-${at}: a\r\n`).join(""))],
  ["a long head", plain(`X: ${"a".repeat(directLimits.headBytes)}\r\n`)],
  ["a head that has not all come", plain().slice(0, 40)],
];

test("what is written in another way is left to Node", () => {
  for (const [what, message] of strange) {
    assert.equal(readDirectHead(Buffer.from(message, "latin1"), paths), undefined, what);
  }
});

const atoms = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ": ",
  ",",
  ";",
  "0",
  "1",
  "2",
  "9",
  "-",
  "+",
  "x",
  "\u00ff",
  "\u0080",
  "_",
  "%20",
  "Content-Length: 2\r\n",
  "Content-Length: 0\r\n",
  "content-length:2",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: identity\r\n",
  "Transfer-Encoding:chunked",
  "TE: trailers\r\n",
  "Connection: close\r\n",
  "Connection: keep-alive\r\n",
  "Connection: upgrade\r\n",
  "Keep-Alive: timeout=5\r\n",
  "Upgrade: websocket\r\n",
  "Expect: 100-continue\r\n",
  "Host: b\r\n",
  "Host:\r\n",
  "Trailer: X\r\n",
  "Proxy-Connection: close\r\n",
  "X-A: b\r\n",
  " folded\r\n",
  "\tfolded\r\n",
  "POST ",
  "GET ",
  "HTTP/1.1",
  "HTTP/1.0",
  "HTTP/2.0",
  "0\r\n\r\n",
  "2\r\nab\r\n0\r\n\r\n",
  "{}",
  next,
];
const fields = [
  "Authorization: Bearer sk-x\r\n",
  "Accept: */*\r\n",
  "Connection: keep-alive\r\n",
  "X-B:c\r\n",
  "User-Agent: a/1 (b)\r\n",
];

/** A message that is plain, or nearly. */
const messages = fc
  .record({
    fields: fc.subarray(fields),
    body: fc.integer({ min: 1, max: 40 }),
    edits: fc.array(
      fc.record({
        at: fc.nat(1_000),
        cut: fc.nat(3),
        put: fc.oneof(
          fc.constantFrom("", ...atoms),
          fc.nat(255).map((code) => String.fromCharCode(code)),
        ),
      }),
      { maxLength: 3 },
    ),
  })
  .map(({ fields: chosen, body, edits }) => {
    let text = plain(chosen.join(""), "x".repeat(body));
    for (const { at, cut, put } of edits) {
      const from = at % (text.length + 1);
      text = text.slice(0, from) + put + text.slice(from + cut);
    }
    return Buffer.from(text, "latin1");
  });

test("nothing is taken that Node refuses, or reads in another way", async () => {
  const numRuns = 20_000;
  const judge = createJudge();
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(messages, async (message) => {
      if (await compare(judge, message)) taken += 1;
    }),
    { numRuns },
  );
  // Else nothing was compared.
  assert.ok(taken > numRuns / 20, `${taken} of ${numRuns} messages were taken`);
});
