import { once } from "node:events";
import { connect } from "node:net";

/** An answer as it stood on the wire. */
export type RawAnswer = { status: number; headers: Map<string, string>; body: string };

const statusLine = /^HTTP\/1\.1 ([1-5]\d\d) [\x20-\x7e]*$/;
const headerLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([\t\x20-\x7e]*)$/;

function readHead(head: string): RawAnswer {
  const [first = "", ...lines] = head.split("\r\n");
  const status = statusLine.exec(first)?.[1];
  if (status === undefined) throw new Error(`no status line: ${JSON.stringify(first)}`);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = headerLine.exec(line) ?? [];
    if (name === "") throw new Error(`no header: ${JSON.stringify(line)}`);
    if (headers.has(name.toLowerCase())) throw new Error(`a header twice: ${name}`);
    headers.set(name.toLowerCase(), value);
  }
  return { status: Number(status), headers, body: "" };
}

/**
 * Reads everything that came back on a connection as answers with a Content-Length, strictly; 100 Continue is skipped.
 * Gives undefined while the last one is not whole; throws an Error for what is no answer.
 */
function readAnswers(received: Buffer): RawAnswer[] | undefined {
  const answers: RawAnswer[] = [];
  for (let at = 0; at < received.length;) {
    const headEnd = received.indexOf("\r\n\r\n", at);
    if (headEnd === -1) return undefined;
    const answer = readHead(received.toString("latin1", at, headEnd));
    at = headEnd + 4;
    if (answer.status === 100) continue;
    const length = answer.headers.get("content-length") ?? "";
    if (!/^\d+$/.test(length)) throw new Error(`no Content-Length: ${JSON.stringify([...answer.headers])}`);
    if (received.length - at < Number(length)) return undefined;
    answers.push({ ...answer, body: received.toString("utf8", at, at + Number(length)) });
    at += Number(length);
  }
  return answers;
}

const hangMs = 15_000;

/**
 * Sends bytes on a connection of its own and gives all answers to them, read strictly. A caller who gets no answer for
 * `patienceMs` says that nothing more will come. Throws when the server neither answers nor closes.
 */
export async function exchange(port: number, bytes: Buffer, patienceMs = 250): Promise<RawAnswer[]> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => undefined);
  const hang = setTimeout(() => socket.destroy(), hangMs);
  let patience: NodeJS.Timeout | undefined;
  try {
    await once(socket, "connect");
    const chunks: Buffer[] = [];
    let isHung = true;
    const over = Promise.withResolvers<void>();
    const isWhole = (): boolean => chunks.length > 0 && readAnswers(Buffer.concat(chunks)) !== undefined;
    const finish = (): void => {
      isHung = false;
      over.resolve();
    };
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      try {
        if (isWhole() && !Buffer.concat(chunks).toString("latin1").endsWith("100 Continue\r\n\r\n")) finish();
      } catch (error) {
        over.reject(error as Error);
      }
    });
    socket.once("end", finish);
    socket.once("close", () => over.resolve());
    socket.write(bytes);
    patience = setTimeout(() => socket.end(), patienceMs);
    await over.promise;
    if (isHung) throw new Error(`neither an answer nor an end within ${hangMs} ms, or the connection was reset`);
    const answers = readAnswers(Buffer.concat(chunks));
    if (!answers) throw new Error(`half an answer: ${JSON.stringify(Buffer.concat(chunks).toString("latin1"))}`);
    return answers;
  } finally {
    clearTimeout(hang);
    clearTimeout(patience);
    socket.destroy();
  }
}
