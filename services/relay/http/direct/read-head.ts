/** The head of a request as Node's server would read it, and where in the bytes it and its body end. */
export type DirectHead = {
  url: string;
  headers: Record<string, string>;
  /** Names and values as they came, in turn. */
  rawHeaders: string[];
  bodyStart: number;
  end: number;
};

/** What Node's server takes besides, it may judge itself. */
export const directLimits = { headBytes: 8_192, bodyBytes: 65_536, fields: 64 };

const post = Buffer.from("POST /");
const blankLine = Buffer.from("\r\n\r\n");
const requestLine = /^POST (\S+) HTTP\/1\.1(?=\r\n)/;
// Of RFC 9112 only what every client sends: no tab, no space before the colon or behind the value, nothing folded, no
// octet above ASCII.
const fieldLine = /\r\n([A-Za-z][A-Za-z\d-]*): ?([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)(?=\r\n|$)/y;
const contentLength = /^[1-9]\d{0,5}$/;

/** Fields that change how a message is read, or who reads it: what has one of them is Node's. */
const forNode = [
  "transfer-encoding",
  "content-encoding",
  "expect",
  "upgrade",
  "trailer",
  "te",
  "proxy-connection",
  "http2-settings",
];

/** The fields of a head without its request line; undefined for what is not written as expected, or not once. */
function readFields(text: string, from: number): Pick<DirectHead, "headers" | "rawHeaders"> | undefined {
  const headers: Record<string, string> = {};
  const rawHeaders: string[] = [];
  let at = from;
  while (at < text.length) {
    fieldLine.lastIndex = at;
    const field = fieldLine.exec(text);
    if (!field || rawHeaders.length >= directLimits.fields * 2) return undefined;
    const [line, rawName, value] = field as unknown as [string, string, string];
    const name = rawName.toLowerCase();
    // Also what every object has, such as `constructor`.
    if (headers[name] !== undefined) return undefined;
    headers[name] = value;
    rawHeaders.push(rawName, value);
    at += line.length;
  }
  return { headers, rawHeaders };
}

/**
 * Reads the head of a call at the beginning of `bytes`: one of `paths` by POST, with a small body of known length, on a
 * connection that stays open. Undefined for everything else, what is wrong or not whole among it: that is for Node's
 * own parser to judge. So nothing is taken here that Node would refuse or read in another way (RFC 9112, Message
 * Parsing Robustness): whoever widens this must show so again.
 */
export function readDirectHead(bytes: Buffer, paths: ReadonlySet<string>): DirectHead | undefined {
  if (bytes.length < post.length || bytes.compare(post, 0, post.length, 0, post.length) !== 0) return undefined;
  const headEnd = bytes.subarray(0, directLimits.headBytes).indexOf(blankLine);
  if (headEnd === -1) return undefined;
  const text = bytes.toString("latin1", 0, headEnd);
  const line = requestLine.exec(text);
  const url = line?.[1] ?? "";
  if (!line || !paths.has(url)) return undefined;
  const fields = readFields(text, line[0].length);
  if (!fields) return undefined;
  const { headers } = fields;
  const length = headers["content-length"] ?? "";
  if (headers["host"] === undefined || !contentLength.test(length)) return undefined;
  if (Number(length) > directLimits.bodyBytes || forNode.some((name) => headers[name] !== undefined)) return undefined;
  const { connection } = headers;
  if (connection !== undefined && connection.toLowerCase() !== "keep-alive") return undefined;
  const bodyStart = headEnd + blankLine.length;
  return { url, ...fields, bodyStart, end: bodyStart + Number(length) };
}
