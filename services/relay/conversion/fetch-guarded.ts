import { request, type Agent, type Dispatcher } from "undici";
import { CallFailure } from "../failures.ts";
import { checkUrl, FetchRefusedError, guardedAgent, publicRules, type FetchRules } from "#shared/net/guarded-agent.ts";

export type FetchLimits = {
  /** Of the body. */
  maxBytes: number;
  /** From the first look-up to the last byte, redirects included. */
  timeoutMs: number;
  /** Told how many bytes of the body have come, before they are kept; may throw a CallFailure, which ends it. */
  onBytes?: (bytes: number) => void;
  /** Aborted when nobody waits for it any more. */
  signal?: AbortSignal;
};

export type Fetched = { contentType: string | undefined; body: Buffer };

export const maxRedirects = 3;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** Where an answer leads on to; undefined when it is the answer itself. */
export function redirectOf(status: number, location: string | string[] | undefined): string | undefined {
  return redirectStatuses.has(status) ? location?.toString() : undefined;
}

async function readBody(
  { headers, body }: Dispatcher.ResponseData,
  { maxBytes, onBytes }: FetchLimits,
): Promise<Buffer> {
  if ((headers["content-encoding"] ?? "identity") !== "identity") throw new FetchRefusedError("an encoded answer");
  if (Number(headers["content-length"] ?? 0) > maxBytes) throw new FetchRefusedError(`more than ${maxBytes} bytes`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new FetchRefusedError(`more than ${maxBytes} bytes`);
    onBytes?.(bytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

type Hop = { url: URL; dispatcher: Agent; signal: AbortSignal };

async function follow(hop: Hop, limits: FetchLimits, rules: FetchRules): Promise<Fetched> {
  let { url } = hop;
  for (let redirects = 0; ; redirects += 1) {
    const headers = { accept: "*/*", "accept-encoding": "identity", "user-agent": "model-relay" };
    const { dispatcher, signal } = hop;
    const response = await request(url, { method: "GET", dispatcher, signal, headers });
    const { statusCode } = response;
    if (statusCode === 200) {
      const contentType = response.headers["content-type"]?.toString();
      return { contentType, body: await readBody(response, limits) };
    }
    // The agent goes away with everything on it; an error after that is nobody's.
    response.body.on("error", () => undefined).destroy();
    const location = redirectOf(statusCode, response.headers["location"]);
    if (location === undefined) throw new FetchRefusedError(`status ${statusCode}`);
    if (redirects === maxRedirects) throw new FetchRefusedError(`more than ${maxRedirects} redirects`);
    url = checkUrl(location, url, rules);
  }
}

/**
 * Fetches a URL that a caller gave, from public addresses only: scheme, port and address are checked again for every
 * redirect, of which it follows three. Nothing of the relay goes along: no credential, no cookie, no proxy. Throws a
 * FetchRefusedError whatever the reason; its cause is the error of the connection, if it was one.
 */
export async function fetchGuarded(
  text: string,
  limits: FetchLimits,
  rules: FetchRules = publicRules,
): Promise<Fetched> {
  const url = checkUrl(text, undefined, rules);
  const { timeoutMs: timeout, signal: left } = limits;
  const over = AbortSignal.timeout(timeout);
  const signal = left ? AbortSignal.any([over, left]) : over;
  const dispatcher = guardedAgent(rules, timeout);
  try {
    return await follow({ url, dispatcher, signal }, limits, rules);
  } catch (error) {
    if (error instanceof FetchRefusedError || error instanceof CallFailure) throw error;
    if (left?.aborted) throw new FetchRefusedError("the caller has left", { cause: error });
    if (signal.aborted) throw new FetchRefusedError(`not within ${timeout} ms`, { cause: error });
    throw new FetchRefusedError("the connection failed", { cause: error });
  } finally {
    await dispatcher.destroy();
  }
}
