import type { LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { callbackify } from "node:util";
import ipaddr from "ipaddr.js";
import { Agent } from "undici";
import { askDns } from "./ask-dns.ts";
import { boundedConnector } from "./bounded-connector.ts";

/** Where a fetch may go; tests, whose servers are on this machine, have their own. */
export type FetchRules = {
  /** Ports by scheme, as `URL` writes both; a scheme that is not here is refused. */
  ports: Readonly<Record<string, readonly string[]>>;
  isAllowedAddress: (address: string) => boolean;
  /** DNS servers as `Resolver.setServers` takes them; left out: the machine's. */
  dnsServers?: readonly string[];
};

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

const maxUrlLength = 8_192;

/** A URL that the rules let pass as far as it is written. Throws FetchRefusedError. */
export function checkUrl(text: string, base: URL | undefined, { ports, isAllowedAddress }: FetchRules): URL {
  const url = text.length <= maxUrlLength ? URL.parse(text, base?.href) : null;
  if (!url) throw new FetchRefusedError("not a URL");
  if (!ports[url.protocol]) throw new FetchRefusedError(`scheme ${url.protocol}`);
  if (!ports[url.protocol]?.includes(url.port)) throw new FetchRefusedError(`port ${url.port}`);
  if (`${url.username}${url.password}` !== "") throw new FetchRefusedError("a user or a password in the URL");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  // An address is connected to without a look-up, and these names need none (RFC 6761, section 6.3).
  const isKnown = isIP(host) !== 0 || /(?:^|\.)localhost\.?$/.test(host);
  if (isKnown && !isAllowedAddress(host)) throw new FetchRefusedError(`address ${host}`);
  return url;
}

const dnsLimits = { tryMs: 1_000, allMs: 6_000 };

/**
 * All addresses of a name, asked of DNS itself. The system's own look-up waits in one of the few threads that files and
 * the names of upstreams need as well: 40 names whose server is silent would keep all others waiting for 50 seconds.
 * Its file of hosts and its domains to search are for names inside, which nobody outside may ask for.
 */
async function addressesOf(name: string, dnsServers: FetchRules["dnsServers"]): Promise<LookupAddress[]> {
  return await askDns(dnsServers ?? [], dnsLimits, async (resolver) => {
    const asked = [resolver.resolve4(name), resolver.resolve6(name)];
    const told = await Promise.allSettled(asked);
    const found = told.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
    // Where neither family is known, why is in the log.
    if (found.length === 0) await Promise.all(asked);
    return found.map((address) => ({ address, family: isIP(address) }));
  });
}

/**
 * Resolves a name for the very connection that is made next, so that it cannot be another address by then; a name is
 * refused when any of its addresses is.
 */
async function allowedAddresses(name: string, rules: FetchRules): Promise<[LookupAddress, ...LookupAddress[]]> {
  const [first, ...others] = await addressesOf(name, rules.dnsServers);
  const refused = [first, ...others].find((found) => !found || !rules.isAllowedAddress(found.address));
  if (refused || !first) throw new FetchRefusedError(`address ${refused?.address} of ${name}`);
  return [first, ...others];
}

function guardedLookup(rules: FetchRules): LookupFunction {
  const lookUp = callbackify((name: string) => allowedAddresses(name, rules));
  return (hostname, { all }, callback) =>
    lookUp(hostname, (error, found) => {
      if (error) callback(error, []);
      else if (all) callback(null, found);
      else callback(null, found[0].address, found[0].family);
    });
}

/** Connections to addresses that the rules allow, and to nothing else; `timeoutMs` bounds each wait of them. */
export function guardedAgent(rules: FetchRules, timeoutMs: number): Agent {
  const connect = boundedConnector({ lookup: guardedLookup(rules), timeout: timeoutMs, allowH2: false });
  return new Agent({ connect, allowH2: false, headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
}
