import ipaddr from "ipaddr.js";

// Parsing takes a microsecond or two, and most callers come again.
const mostKnown = 10_000;
const known = new Map<string, string>();

/**
 * The part of an address that counts as one caller: an IPv4 address, also when IPv6 carries it (`::ffff:192.0.2.1`),
 * and the first 64 bits of an IPv6 address, for whoever has one has all 2^64 behind them.
 */
export function addressBlock(address: string): string {
  if (!address.includes(":")) return address;
  let block = known.get(address);
  if (block === undefined) {
    block = parseBlock(address);
    if (known.size >= mostKnown) known.clear();
    known.set(address, block);
  }
  return block;
}

function parseBlock(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const groups = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${groups.join(":")}::`;
}
