const headEnd = "\r\n\r\n";

/**
 * Takes the first whole HTTP/1.1 request from `bytes`; undefined while some of it is missing. Bodies must tell their
 * length: every proxy of the bench sends requests that it holds whole.
 */
export function takeRequest(bytes: Buffer): { body: Buffer; rest: Buffer } | undefined {
  const headBytes = bytes.indexOf(headEnd);
  if (headBytes < 0) return undefined;
  const head = bytes.toString("latin1", 0, headBytes);
  const bodyAt = headBytes + headEnd.length;
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined && /\r\ntransfer-encoding:/i.test(head))
    throw new Error("a request came without its length");
  const bodyEnd = bodyAt + Number(length ?? 0);
  if (bytes.length < bodyEnd) return undefined;
  return { body: bytes.subarray(bodyAt, bodyEnd), rest: bytes.subarray(bodyEnd) };
}
