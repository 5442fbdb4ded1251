const headEnd = "\r\n\r\n";
const keptBytes = 1_024;

/**
 * Reads HTTP/1.1 requests from a connection, one after the other. Of a body only the first KB is kept, so that a large
 * one costs no more than being counted. Bodies must tell their length: every proxy of the bench sends requests that it
 * holds whole, or passes the length on.
 */
export function createRequestReader(onRequest: (path: string, bodyStart: Buffer) => void): (bytes: Buffer) => void {
  let waiting: Buffer = Buffer.alloc(0);
  let path = "";
  let bodyLeft = -1;

  const readHead = (): boolean => {
    const headBytes = waiting.indexOf(headEnd);
    if (headBytes < 0) return false;
    const head = waiting.toString("latin1", 0, headBytes);
    path = head.split(" ", 2)[1] ?? "";
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    if (length === undefined && /\r\ntransfer-encoding:/i.test(head))
      throw new Error("a request came without its length");
    bodyLeft = Number(length ?? 0);
    waiting = waiting.subarray(headBytes + headEnd.length);
    return true;
  };

  let start: Buffer = Buffer.alloc(0);
  const readBody = (): boolean => {
    const part = waiting.subarray(0, bodyLeft);
    if (start.length < keptBytes) start = Buffer.concat([start, part.subarray(0, keptBytes - start.length)]);
    bodyLeft -= part.length;
    waiting = waiting.subarray(part.length);
    if (bodyLeft > 0) return false;
    const bodyStart = start;
    start = Buffer.alloc(0);
    bodyLeft = -1;
    onRequest(path, bodyStart);
    return true;
  };

  return (bytes) => {
    waiting = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
    while (bodyLeft < 0 ? readHead() : readBody());
  };
}
