import fc from "fast-check";

/** A request that no server may take for a good one, as bytes; what it is about, for a failure's message. */
export type Malformed = { about: string; path: string; bytes: Buffer };

export type Target = { path: string; secret: string };

const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");

/** Headers of a right call in either format, so that only what is malformed can be what is refused. */
const rightHeaders = ({ secret }: Target): string[] => [
  "Host: relay",
  `Authorization: Bearer ${secret}`,
  "provider-version: 2023-06-01",
  "Content-Type: application/json",
];

const messages = [{ role: "user", content: "Hello." }];
const rightFields = { model: "test-model", max_tokens: 5, messages, input: "Hello.", prompt: "Hello.", voice: "alloy" };
const rightBody = JSON.stringify(rightFields);
const rightChunks = `${rightBody.length.toString(16)}\r\n${rightBody}\r\n0\r\n\r\n`;

type RequestParts = { line?: string; headers?: string[]; body?: string; host?: boolean; eol?: string };

/** A right call in which the given parts stand in the place of the right ones. */
function withParts(target: Target, { line, headers = [], body = "", host = true, eol = "\r\n" }: RequestParts): Buffer {
  const first = line ?? `POST ${target.path} HTTP/1.1`;
  const own = rightHeaders(target).slice(host ? 0 : 1);
  return bytesOf(`${[first, ...own, ...headers].join(eol)}${eol}${eol}${body}`);
}

/** Content-Length of the right body. */
const length = `Content-Length: ${rightBody.length}`;
const chunked = "Transfer-Encoding: chunked";

const heads: [string, RequestParts][] = [
  ...["0x10", "-1", "+5", "1e3", "5 5", "5, 5", "", "99999999999999999999", "5;", "٥"].map(
    (value): [string, RequestParts] => [
      `Content-Length: ${value}`,
      { headers: [`Content-Length: ${value}`], body: rightBody },
    ],
  ),
  ...["chunked, chunked", "gzip", "xchunked", "chunked, identity", "chunked;q=1", "\u000bchunked", ""].map(
    (value): [string, RequestParts] => [
      `Transfer-Encoding: ${value}`,
      { headers: [`Transfer-Encoding: ${value}`], body: rightChunks },
    ],
  ),
  ["Content-Length and Transfer-Encoding", { headers: [length, chunked], body: rightChunks }],
  ["Transfer-Encoding and Content-Length", { headers: [chunked, length], body: rightChunks }],
  ["Content-Length twice", { headers: [length, length], body: rightBody }],
  ["two Content-Lengths", { headers: [length, "Content-Length: 1"], body: rightBody }],
  ["Transfer-Encoding twice", { headers: [chunked, chunked], body: rightChunks }],
  ["a folded header", { headers: [length, "X-Folded: a", " b"], body: rightBody }],
  ["a blank before the colon", { headers: ["Content-Length : 5"], body: rightBody }],
  ["a header without a colon", { headers: [length, "nonsense"], body: rightBody }],
  ["a header without a name", { headers: [length, ": value"], body: rightBody }],
  ["NUL in a header's name", { headers: [length, "X-\0: a"], body: rightBody }],
  ["NUL in a header's value", { headers: [length, "X-A: a\0b"], body: rightBody }],
  ["a carriage return in a header's value", { headers: [length, "X-A: a\rb"], body: rightBody }],
  ["bare line feeds", { headers: [length], body: rightBody, eol: "\n" }],
  ["no Host", { headers: [length], body: rightBody, host: false }],
  ["two Hosts", { headers: [length, "Host: other"], body: rightBody }],
  ["an unknown expectation", { headers: [length, "Expect: miracles"], body: rightBody }],
  ["an expectation among others", { headers: [length, "Expect: 100-continue, miracles"], body: rightBody }],
  ["40,000 bytes of header", { headers: [length, `X-Long: ${"a".repeat(40_000)}`], body: rightBody }],
  ["300 headers", { headers: [length, ...Array.from({ length: 300 }, (_, at) => `X-${at}: a`)], body: rightBody }],
  ["an unknown content encoding", { headers: [length, "Content-Encoding: compress"], body: rightBody }],
  ["a body that is not gzip", { headers: [length, "Content-Encoding: gzip"], body: rightBody }],
  ["a body that is not zstd", { headers: [length, "Content-Encoding: zstd"], body: rightBody }],
  ["an announced body above 128 MB", { headers: ["Content-Length: 134217729"], body: rightBody }],
  [
    "a second request in the body of one that is framed twice",
    { headers: ["Content-Length: 6", chunked], body: `0\r\n\r\n` },
  ],
];

const lines: [string, (target: Target) => string][] = [
  ...["post", "P@ST", "GETT", "", "POST POST", "\0POST", " POST"].map(
    (method): [string, (target: Target) => string] => [
      `method ${JSON.stringify(method)}`,
      ({ path }) => `${method} ${path} HTTP/1.1`,
    ],
  ),
  ...["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/9.9", "HTTP/1", "HTTP/1.1x", "http/1.1", "HTTP 1.1", "FTP/1.1"].map(
    (version): [string, (target: Target) => string] => [`version ${version}`, ({ path }) => `POST ${path} ${version}`],
  ),
  ["no version", ({ path }) => `POST ${path}`],
  ["a blank in the target", ({ path }) => `POST ${path} x HTTP/1.1`],
  ["a target that is no path", ({ path }) => `POST ${path.slice(1)} HTTP/1.1`],
  ["a target of another scheme", ({ path }) => `POST ftp://relay${path} HTTP/1.1`],
  ["a long target", ({ path }) => `POST ${path}?${"a".repeat(10_000)} HTTP/1.1`],
  ["a target with a line feed", ({ path }) => `POST ${path}\nX: y HTTP/1.1`],
  ["a target that is not ASCII", ({ path }) => `POST ${path}/\u00ff\u00fe HTTP/1.1`],
  ["percent signs that encode nothing", ({ path }) => `POST ${path}%zz HTTP/1.1`],
  ["a target that leaves its folder", ({ path }) => `POST /v1/..${path}/../x HTTP/1.1`],
  ["two slashes", ({ path }) => `POST /${path} HTTP/1.1`],
  ["a slash behind", ({ path }) => `POST ${path}/ HTTP/1.1`],
  ["CONNECT", ({ path }) => `CONNECT relay:443${path} HTTP/1.1`],
  ["TRACE", ({ path }) => `TRACE ${path} HTTP/1.1`],
  ["OPTIONS *", () => "OPTIONS * HTTP/1.1"],
  ["POST *", () => "POST * HTTP/1.1"],
  ["QUERY", ({ path }) => `QUERY ${path} HTTP/1.1`],
];

const chunks: [string, string][] = [
  ["a chunk size that is no number", `zz\r\n${rightBody}\r\n0\r\n\r\n`],
  ["a negative chunk size", `-1\r\n${rightBody}\r\n0\r\n\r\n`],
  ["a chunk size with a prefix", `0x5\r\nhello\r\n0\r\n\r\n`],
  ["a chunk size beyond all numbers", `fffffffffffffffff\r\n${rightBody}`],
  ["a chunk that is longer than its size", `1\r\n${rightBody}\r\n0\r\n\r\n`],
  ["a chunk that is shorter than its size", `fff\r\n${rightBody}\r\n0\r\n\r\n`],
  ["chunks with bare line feeds", `${rightBody.length.toString(16)}\n${rightBody}\n0\n\n`],
  ["a chunk extension without an end", `5;${"a".repeat(40_000)}\r\nhello\r\n0\r\n\r\n`],
  ["trailers that are none", `${rightChunks.slice(0, -2)}nonsense\r\n\r\n`],
  ["no last chunk", rightChunks.slice(0, -5)],
];

const strangers: [string, string][] = [
  ["a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".padEnd(200, "\x41")],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ["an SSH greeting", "SSH-2.0-OpenSSH_9.2\r\n"],
  ["a mail greeting", "EHLO relay\r\nMAIL FROM:<a@b>\r\n"],
  ["a Redis command", "*1\r\n$4\r\nPING\r\n"],
  ["zeros", "\0".repeat(1_000)],
  ["half a word", "POS"],
  ["half a head", "POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\nAuthor"],
];

/** Everything that is known to have fooled servers, against one path. */
export function corpusFor(target: Target): Malformed[] {
  const { path } = target;
  const of = (about: string, bytes: Buffer): Malformed => ({ about: `${about}, ${path}`, path, bytes });
  return [
    ...heads.map(([about, parts]) => of(about, withParts(target, parts))),
    ...lines.map(([about, line]) =>
      of(about, withParts(target, { line: line(target), headers: [length], body: rightBody })),
    ),
    ...chunks.map(([about, body]) => of(about, withParts(target, { headers: [chunked], body }))),
    ...strangers.map(([about, text]) => of(about, bytesOf(text))),
    of(
      "chunks in HTTP/1.0",
      withParts(target, { line: `POST ${path} HTTP/1.0`, headers: [chunked], body: rightChunks }),
    ),
    of("a truncated body", withParts(target, { headers: [length], body: rightBody.slice(0, -1) })),
    of("no body", withParts(target, {})),
    of("another method", withParts(target, { line: `DELETE ${path} HTTP/1.1` })),
  ];
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

const mangled = fc
  .tuple(
    fc.nat(),
    fc.constantFrom("cut", "insert", "replace"),
    fc.constantFrom('"', "{", "}", ",", "\0", "x", "\\", ":"),
  )
  .map(([place, how, character]) => {
    const at = place % rightBody.length;
    if (how === "cut") return rightBody.slice(0, at);
    return `${rightBody.slice(0, at)}${character}${rightBody.slice(how === "insert" ? at : at + 1)}`;
  })
  .filter((text) => !isJson(text));

const notAnObject = fc.json().filter((text) => !text.startsWith("{"));
const deep = fc.integer({ min: 257, max: 5_000 }).map((depth) => `{"model":${"[".repeat(depth)}${"]".repeat(depth)}}`);
const twice = fc.constantFrom(...Object.keys(rightFields)).map((name) => `{"${name}":1,${rightBody.slice(1)}`);
const wrongModel = fc
  .oneof(
    fc.constant(null),
    fc.integer(),
    fc.boolean(),
    fc.array(fc.string()),
    fc.dictionary(fc.string(), fc.string()),
    fc.constant(""),
  )
  .map((model) => JSON.stringify({ ...rightFields, model }));
const unknownModel = fc
  .string({ minLength: 1, maxLength: 300, unit: "binary" })
  .filter((model) => model !== "test-model")
  .map((model) => JSON.stringify({ ...rightFields, model }));
const withoutModel = fc
  .constantFrom("__proto__", "constructor", "toString", "")
  .map((name) => `{"${name}":{"model":"test-model"},"messages":[],"max_tokens":5,"input":"x","prompt":"x"}`);

/** Bodies that are wrong by how they were made, in a request that is right. */
const wrongBodies = fc.oneof(
  mangled,
  notAnObject,
  deep,
  twice,
  wrongModel,
  unknownModel,
  withoutModel,
  fc.string({ unit: "binary" }).filter((text) => !isJson(text)),
);

/** Any request of this target that is malformed: its body with a right key, or its bytes with a wrong one. */
export function malformedFor(targets: Target[]): fc.Arbitrary<Malformed> {
  const target = fc.constantFrom(...targets);
  const wrongBody = fc.tuple(target, wrongBodies, fc.boolean()).map(([to, text, isChunked]) => {
    const body = Buffer.from(text).toString("latin1");
    const framed = isChunked && body !== "" ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : `0\r\n\r\n`;
    const parts = isChunked
      ? { headers: [chunked], body: framed }
      : { headers: [`Content-Length: ${body.length}`], body };
    return {
      about: `the body ${JSON.stringify(text).slice(0, 300)}, ${to.path}`,
      path: to.path,
      bytes: withParts(to, parts),
    };
  });
  const edit = fc.tuple(fc.nat(), fc.nat({ max: 255 }), fc.constantFrom("cut", "insert", "replace", "remove"));
  const mutated = fc.tuple(target, fc.array(edit, { minLength: 1, maxLength: 4 })).map(([to, edits]) => {
    let bytes = withParts({ ...to, secret: "sk-wrong" }, { headers: [length], body: rightBody });
    for (const [place, byte, how] of edits) {
      const at = place % (bytes.length + 1);
      const before = bytes.subarray(0, at);
      const after = bytes.subarray(how === "insert" ? at : at + 1);
      if (how === "cut") bytes = before;
      else bytes = Buffer.concat(how === "remove" ? [before, after] : [before, Buffer.from([byte]), after]);
    }
    return { about: `the bytes ${JSON.stringify(bytes.toString("latin1"))}`, path: to.path, bytes };
  });
  const noise = fc.uint8Array({ minLength: 1, maxLength: 500 }).map((bytes) => ({
    about: `the noise ${Buffer.from(bytes).toString("hex")}`,
    path: "",
    bytes: Buffer.from(bytes),
  }));
  return (
    fc
      .oneof({ arbitrary: wrongBody, weight: 5 }, { arbitrary: mutated, weight: 4 }, { arbitrary: noise, weight: 1 })
      // Line ends alone are not even the beginning of a request.
      .filter(({ bytes }) => !/^[\r\n]*$/.test(bytes.toString("latin1")))
  );
}
