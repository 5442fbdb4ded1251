import ipaddr from "ipaddr.js";

// No address is longer, and none needs more digits behind the slash.
const maxCharacters = 49;

/** Parses an address, or a network in CIDR; undefined for anything else, such as one that begins within its network. */
function parse(text: string): [address: ipaddr.IPv4 | ipaddr.IPv6, bits: number] | undefined {
  const [head = "", bits, ...more] = text.split("/");
  const isWritten = bits === undefined || /^(0|[1-9]\d{0,2})$/.test(bits);
  if (text.length > maxCharacters || more.length > 0 || !isWritten || head.includes("%")) return undefined;
  if (!ipaddr.IPv4.isValidFourPartDecimal(head) && !ipaddr.IPv6.isValid(head)) return undefined;
  const address = ipaddr.process(head);
  const most = address instanceof ipaddr.IPv4 ? 32 : 128;
  // Of an IPv4 address that IPv6 carries, the bits would be those of the other one.
  if (bits !== undefined && most === 32 && head.includes(":")) return undefined;
  const length = bits === undefined ? most : Number(bits);
  return length <= most ? [address, length] : undefined;
}

const bitsOf = (address: ipaddr.IPv4 | ipaddr.IPv6): string =>
  address
    .toByteArray()
    .map((byte) => byte.toString(2).padStart(8, "0"))
    .join("");

/** An address or a network as people write it, in its shortest form; undefined when it is neither. */
export function networkOf(text: string): string | undefined {
  const parsed = parse(text);
  if (!parsed) return undefined;
  const [address, length] = parsed;
  const bits = bitsOf(address);
  if (bits.slice(length).includes("1")) return undefined;
  return length === bits.length ? address.toString() : `${address.toString()}/${length}`;
}

/**
 * The same for whoever compares digits: 4 or 6, then the network's part of the address in hexadecimal, after a slash
 * how many of its bits count. Throws for what is neither.
 */
export function networkDigits(text: string): string {
  const parsed = parse(text);
  if (!parsed) throw new Error(`no address or network: ${text}`);
  const [address, length] = parsed;
  const digits = Buffer.from(address.toByteArray()).toString("hex");
  return `${address.kind() === "ipv4" ? 4 : 6}${digits.slice(0, Math.ceil(length / 4))}/${length}`;
}
