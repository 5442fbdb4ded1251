const carriageReturn = 0x0d;
const newline = 0x0a;

/** What a reader finds in the bytes of a connection. */
export type AnswerHandler = {
  onHead: (status: number) => void;
  /** A part of the body without the transfer's own framing; only valid during the call. */
  onPayload: (part: Buffer) => void;
  onEnd: () => void;
};

type Stage = "head" | "length" | "size" | "chunk" | "chunk-end" | "trailer";

/**
 * Reads HTTP/1.1 answers from a connection, one after the other, however their bytes are cut. It looks at framing
 * bytes only, so its cost does not grow with the bodies. Throws an Error at what is no HTTP or has no length.
 */
export function createAnswerReader(handler: AnswerHandler): (bytes: Buffer) => void {
  let stage: Stage = "head";
  let head = "";
  let left = 0;
  let lineBytes = 0;

  const begin = (next: Stage): void => {
    stage = next;
    left = 0;
    lineBytes = 0;
  };
  const end = (): void => {
    head = "";
    begin("head");
    handler.onEnd();
  };

  const readHead = (bytes: Buffer, at: number): number => {
    const known = head.length;
    head += bytes.toString("latin1", at);
    const headEnd = head.indexOf("\r\n\r\n", Math.max(0, known - 3));
    if (headEnd < 0) return bytes.length;
    const { status, length } = parseHead(head.slice(0, headEnd));
    begin(length === undefined ? "size" : "length");
    left = length ?? 0;
    handler.onHead(status);
    if (length === 0) end();
    return at + headEnd + 4 - known;
  };

  const readPayload = (bytes: Buffer, at: number): number => {
    const to = Math.min(bytes.length, at + left);
    left -= to - at;
    handler.onPayload(bytes.subarray(at, to));
    if (left > 0) return to;
    if (stage === "length") end();
    else begin("chunk-end");
    return to;
  };

  // Lines of the chunked framing: "<hex>\r\n" before a chunk, "\r\n" after it, trailers and an empty line at the end.
  const readLine = (bytes: Buffer, at: number): number => {
    for (let position = at; position < bytes.length; position += 1) {
      const byte = bytes[position] as number;
      if (byte === newline) {
        endLine();
        return position + 1;
      }
      if (byte === carriageReturn) continue;
      lineBytes += 1;
      if (stage === "size") left = left * 16 + hexDigit(byte);
    }
    return bytes.length;
  };

  const endLine = (): void => {
    if (stage === "size") {
      lineBytes = 0;
      stage = left > 0 ? "chunk" : "trailer";
    } else if (stage === "chunk-end") begin("size");
    else if (lineBytes === 0) end();
    else lineBytes = 0;
  };

  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      if (stage === "head") at = readHead(bytes, at);
      else if (stage === "length" || stage === "chunk") at = readPayload(bytes, at);
      else at = readLine(bytes, at);
    }
  };
}

function parseHead(head: string): { status: number; length: number | undefined } {
  const status = /^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1];
  if (status === undefined) throw new Error(`no HTTP/1.1: ${head.slice(0, 80)}`);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return { status: Number(status), length: Number(length) };
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) throw new Error("an answer came without its length");
  return { status: Number(status), length: undefined };
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  if (letter >= 0x61 && letter <= 0x66) return letter - 0x57;
  throw new Error("a chunk came without its size");
}
