import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createRid } from "#shared/money/rid.ts";
import { renderFailure } from "../failures.ts";
import { errorsOfPath, maxTargetLength, pathOf } from "./paths.ts";
import { requestIdHeaders } from "./respond.ts";

/** More header fields than any client sends; their bytes have a limit of their own. */
export const maxHeaderFields = 200;

/** What a socket has behind it while Node answers a request on it. */
type OpenResponse = { _httpMessage?: ServerResponse | null };

/** How long what a caller still sends is taken in after the answer: closing at once would take the answer back. */
const lingerMs = 1_000;

const requestLine = /^[A-Z]+ (\S+) HTTP\//;

/** What was asked for, as far as it can be known: by the request under way, or by the bytes that could not be read. */
function targetOf(socket: Duplex, packet: unknown): string {
  const underWay = (socket as OpenResponse)._httpMessage?.req.url;
  if (underWay !== undefined) return underWay;
  if (!Buffer.isBuffer(packet)) return "/";
  return requestLine.exec(packet.toString("latin1", 0, maxTargetLength))?.[1] ?? "/";
}

/** The whole answer to a request that never became one, as it goes over the wire. */
function rawAnswer(rid: string, target: string): string {
  const dialect = errorsOfPath(pathOf(target));
  const rendered = renderFailure({ name: "malformed_request" }, dialect.format);
  const body = dialect.writeError(rendered);
  const headers = {
    date: new Date().toUTCString(),
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...requestIdHeaders(rid),
    connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${rendered.status} Bad Request\r\n${lines.join("")}\r\n${body}`;
}

/** Answers on the bare socket and closes it once the caller has had the time to read that; gives the request id. */
function refuseOnSocket(socket: Duplex, target: string): string {
  const rid = createRid();
  // A socket that Node has let go of has nobody else who listens.
  socket.on("error", () => undefined).resume();
  socket.end(rawAnswer(rid, target));
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  return rid;
}

/** Is told of a request that was refused before it became a call. */
export type Refused = (refusal: { rid: string; ip: string | undefined; failure: string; cause?: unknown }) => void;

/** An error as Node tells it: of its HTTP parser, of its timers for requests, or of the connection. */
type ClientError = Error & { code?: string | undefined; rawPacket?: unknown };

const isOfHttp = ({ code = "" }: ClientError): boolean => code.startsWith("HPE_") || code.startsWith("ERR_HTTP_");

/**
 * Answers what cannot be read as HTTP, or stops coming: API spec, Cases, Any other unprocessable request. A connection
 * that broke, or on which an answer is under way, is closed without one.
 */
export function answerClientError(error: ClientError, socket: Socket, refused: Refused): void {
  // What comes behind a refusal, and what is found out about a caller who has gone.
  if (socket.writableEnded || socket.destroyed) return;
  const isAnswering = (socket as OpenResponse)._httpMessage?.headersSent === true;
  if (!isOfHttp(error) || isAnswering) return void socket.destroy();
  const rid = refuseOnSocket(socket, targetOf(socket, error.rawPacket));
  refused({ rid, ip: socket.remoteAddress, failure: "malformed_request", cause: error.code });
}

/** Answers CONNECT, for which Node gives the socket away: the relay is no proxy of that kind. */
export function answerConnect(request: IncomingMessage, socket: Duplex, refused: Refused): void {
  const rid = refuseOnSocket(socket, request.url ?? "");
  refused({ rid, ip: request.socket.remoteAddress, failure: "malformed_request", cause: "CONNECT" });
}

function countOf(name: string, rawHeaders: string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const header = rawHeaders[at] ?? "";
    if (header.length === name.length && header.toLowerCase() === name) count += 1;
  }
  return count;
}

const continues = /^100-continue$/i;

/** What is wrong with a head that Node takes but RFC 9112 does not, or that exceeds a limit; undefined when nothing. */
export function problemOfHead({ httpVersion, headers, rawHeaders, url = "" }: IncomingMessage): string | undefined {
  if (httpVersion !== "1.1" && httpVersion !== "1.0") return `HTTP/${httpVersion}`;
  if (rawHeaders.length > maxHeaderFields * 2) return "too many header fields";
  if (url.length > maxTargetLength) return "the target is too long";
  if (httpVersion === "1.0") return headers["transfer-encoding"] === undefined ? undefined : "chunks in HTTP/1.0";
  if (headers.expect !== undefined && !continues.test(headers.expect)) return "an unknown expectation";
  const hosts = countOf("host", rawHeaders);
  return hosts === 1 ? undefined : `${hosts} Host headers`;
}
