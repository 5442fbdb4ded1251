import type { IncomingMessage } from "node:http";
import type { Fields } from "./dialect.ts";
import { type Headers, parseBody } from "./request.ts";

/** A request as it came. */
export type ReceivedRequest = {
  method: string;
  path: string;
  headers: Headers;
  rawBody: Buffer;
  /** The body parsed; undefined when it is neither a JSON object nor a form. */
  body: Fields | undefined;
  receivedAt: number;
};

/** Reads a request to its end. */
export async function receive(request: IncomingMessage): Promise<ReceivedRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const rawBody = Buffer.concat(chunks);
  const { method = "", url = "", headers } = request;
  return {
    method,
    path: url,
    headers,
    rawBody,
    body: await parseBody(rawBody, headers["content-type"]),
    receivedAt: Date.now(),
  };
}
