import { askDns } from "#shared/net/ask-dns.ts";

/** What DNS says of a name: its TXT records, that there are none, or nothing that can be relied on. */
export type TxtAnswer = { records: string[] } | "absent" | "unknown";

export type TxtRecords = (name: string) => Promise<TxtAnswer | "busy">;

const limits = { tryMs: 2_000, allMs: 8_000 };
const maxAtOnce = 8;
const absent = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * Asks the machine's resolver, or the servers that are named, for TXT records. Nothing else is asked, and no address in
 * an answer is connected to. At most eight questions at once, each ended after eight seconds. Never rejects.
 */
export function createTxtRecords(servers: readonly string[] = []): TxtRecords {
  let asking = 0;
  return async (name) => {
    if (asking >= maxAtOnce) return "busy";
    asking += 1;
    try {
      const found = await askDns(servers, limits, (resolver) => resolver.resolveTxt(name));
      // A long record comes in pieces (RFC 1035, section 3.3.14).
      return { records: found.map((pieces) => pieces.join("")) };
    } catch (error) {
      return absent.has(String(Reflect.get(Object(error), "code"))) ? "absent" : "unknown";
    } finally {
      asking -= 1;
    }
  };
}
