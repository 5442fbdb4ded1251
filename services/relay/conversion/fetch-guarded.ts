import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { Agent, request, type Dispatcher } from "undici";

export type FetchLimits = {
  /** Of the body. */
  maxBytes: number;
  /** From the first look-up to the last byte, redirects included. */
  timeoutMs: number;
};

/** Where a fetch may go; tests, whose servers are on this machine, have their own. */
export type FetchRules = {
  /** Ports by scheme, as `URL` writes both; a scheme that is not here is refused. */
  ports: Readonly<Record<string, readonly string[]>>;
  isAllowedAddress: (address: string) => boolean;
};

export type Fetched = { contentType: string | undefined; body: Buffer };

/** A URL that was not fetched, or not to its end. The message is for the log: it may tell what a name resolves to. */
export class FetchRefusedError extends Error {}

const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3");

// Of the public internet by its range, but answered by the host that a virtual machine of Azure runs on.
const hostServices = new Set(["168.63.129.16"]);

/**
 * Whether an address is one of the public internet that a single machine may have. Refuses among others private,
 * loopback, link-local (with the metadata services on 169.254.169.254), shared (CGNAT) and multicast addresses, and
 * IPv6 addresses that stand for an IPv4 address: mapped, 6to4, Teredo, NAT64.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast" || hostServices.has(parsed.toString())) return false;
  return parsed instanceof ipaddr.IPv4 || parsed.match(globalUnicast);
}

/**
 * HTTPS alone, because what an unencrypted answer says could be anybody's; the scheme's own port, because others lead
 * to services that are not meant for the public.
 */
export const publicRules: FetchRules = { ports: { "https:": [""] }, isAllowedAddress: isPublicAddress };

export const maxRedirects = 3;
const maxUrlLength = 8_192;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** Where an answer leads on to; undefined when it is the answer itself. */
export function redirectOf(status: number, location: string | string[] | undefined): string | undefined {
  return redirectStatuses.has(status) ? location?.toString() : undefined;
}

/** A URL that the rules let pass as far as it is written. Throws FetchRefusedError. */
export function checkUrl(text: string, base: URL | undefined, { ports, isAllowedAddress }: FetchRules): URL {
  const url = text.length <= maxUrlLength ? URL.parse(text, base?.href) : null;
  if (!url) throw new FetchRefusedError("not a URL");
  if (!ports[url.protocol]) throw new FetchRefusedError(`scheme ${url.protocol}`);
  if (!ports[url.protocol]?.includes(url.port)) throw new FetchRefusedError(`port ${url.port}`);
  if (`${url.username}${url.password}` !== "") throw new FetchRefusedError("a user or a password in the URL");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  // An address is connected to without a look-up.
  if (isIP(host) !== 0 && !isAllowedAddress(host)) throw new FetchRefusedError(`address ${host}`);
  return url;
}

/**
 * Resolves a name for the very connection that is made next, so that it cannot be another address by then; a name is
 * refused when any of its addresses is.
 */
const guardedLookup =
  (isAllowedAddress: FetchRules["isAllowedAddress"]): LookupFunction =>
  (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, []);
      const refused = found.find(({ address }) => !isAllowedAddress(address));
      const [first] = found;
      if (refused || !first) return callback(new FetchRefusedError(`address ${refused?.address} of ${hostname}`), []);
      if (options.all) callback(null, found);
      else callback(null, first.address, first.family);
    });

/** Connections to addresses that the rules allow, and to nothing else; `timeoutMs` bounds each wait of them. */
export function guardedAgent({ isAllowedAddress }: FetchRules, timeoutMs: number): Agent {
  const connect = { lookup: guardedLookup(isAllowedAddress), timeout: timeoutMs };
  return new Agent({ connect, allowH2: false, headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
}

async function readBody({ headers, body }: Dispatcher.ResponseData, maxBytes: number): Promise<Buffer> {
  if ((headers["content-encoding"] ?? "identity") !== "identity") throw new FetchRefusedError("an encoded answer");
  if (Number(headers["content-length"] ?? 0) > maxBytes) throw new FetchRefusedError(`more than ${maxBytes} bytes`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new FetchRefusedError(`more than ${maxBytes} bytes`);
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
      return { contentType, body: await readBody(response, limits.maxBytes) };
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
  const signal = AbortSignal.timeout(limits.timeoutMs);
  const { timeoutMs: timeout } = limits;
  const dispatcher = guardedAgent(rules, timeout);
  try {
    return await follow({ url, dispatcher, signal }, limits, rules);
  } catch (error) {
    if (error instanceof FetchRefusedError) throw error;
    if (signal.aborted) throw new FetchRefusedError(`not within ${timeout} ms`, { cause: error });
    throw new FetchRefusedError("the connection failed", { cause: error });
  } finally {
    await dispatcher.destroy();
  }
}
