import { domainToASCII, domainToUnicode } from "node:url";

const addressPattern = /^[^\s@<>"(),:;\\[\]]{1,64}@[^\s@<>"(),:;\\[\]]{1,189}$/;
const controls = /\p{Cc}/u;
// RFC 1123, section 2.1; the last label is no number, or it would be an address.
const domainPattern = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const maxDomain = 230;

/** An e-mail address in lower case, as it is compared; undefined: it is none. */
export function readAddress(text: string): string | undefined {
  const address = text.normalize("NFC").toLowerCase();
  return addressPattern.test(address) && !controls.test(address) ? address : undefined;
}

/** A domain in the letters of DNS (punycode, lower case, no dot at its end); undefined: none, or of one label. */
export function readDomain(text: string): string | undefined {
  // Percent signs are decoded by who reads addresses of pages; in those of mails they mean nothing.
  const ascii = text.includes("%") ? "" : domainToASCII(text.normalize("NFC")).toLowerCase();
  return ascii.length <= maxDomain && domainPattern.test(ascii) ? ascii : undefined;
}

/**
 * All spellings of one address by the letters of its domain: with punycode, which comes first, and without. The part
 * before the @ is the mail server's own business and compared as it is.
 */
export function spellingsOf(address: string): [string, ...string[]] {
  const at = address.lastIndexOf("@");
  const domain = readDomain(address.slice(at + 1));
  if (domain === undefined) return [address];
  const before = address.slice(0, at + 1);
  return [before + domain, before + domainToUnicode(domain), address];
}

/** Whether two addresses are the same mailbox, in whichever letters. */
export const isSameAddress = (one: string, other: string): boolean => spellingsOf(one)[0] === spellingsOf(other)[0];

/** The domain of an address as `readDomain` tells it. */
export const domainOf = (address: string): string | undefined =>
  readDomain(address.slice(address.lastIndexOf("@") + 1));
