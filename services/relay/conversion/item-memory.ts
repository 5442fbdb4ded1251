import { member, stringOf, type Dialect, type Envelope } from "../dialects/dialect.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";

/**
 * Texts and thoughts of converted answers, which no provider has stored under the ids that they went out with. Clients
 * of Responses name them by these ids instead of sending them again (`item_reference`; Vercel's AI SDK does by
 * default). Other items they send whole. What is not here any more, they are told to send.
 */
export type ItemMemory = {
  /** Keeps an item of an answer to a caller; an item is never seen by another one. */
  remember: (owner: string, item: unknown) => void;
  recall: (owner: string, id: string) => string | undefined;
};

const maxBytes = 32 * 1024 * 1024;
const maxItemBytes = 256 * 1024;
/** More than the items of a long conversation. */
const maxRecalledBytes = 4 * 1024 * 1024;
// Of the entry beside its texts.
const bytesOfEntry = 200;

const keptTypes = new Set<unknown>(["message", "reasoning"]);

/** Keeps the newest items, in at most so many bytes. */
export function createItemMemory(limitBytes = maxBytes): ItemMemory {
  const items = new Map<string, string>();
  let bytes = 0;
  const sizeOf = (key: string, text: string): number => (key.length + text.length) * 2 + bytesOfEntry;
  const forget = (key: string): void => {
    const text = items.get(key);
    if (text === undefined) return;
    items.delete(key);
    bytes -= sizeOf(key, text);
  };
  return {
    remember: (owner, item) => {
      const id = stringOf(member(item, "id"));
      if (!id || !keptTypes.has(member(item, "type"))) return;
      const text = JSON.stringify(item);
      if (text.length > maxItemBytes) return;
      const key = `${owner} ${id}`;
      forget(key);
      items.set(key, text);
      bytes += sizeOf(key, text);
      for (const oldest of items.keys()) {
        if (bytes <= limitBytes) break;
        forget(oldest);
      }
    },
    recall: (owner, id) => items.get(`${owner} ${id}`),
  };
}

const referenceWord = Buffer.from('"item_reference"');

/**
 * The request with the items that it refers to, where they are remembered, so that they count as input like any other.
 * Each stands in for one reference only. `claim` is called before the input is read as objects.
 */
export function withRecalled(
  envelope: Envelope,
  dialect: Dialect,
  recall: (id: string) => string | undefined,
  claim: () => void,
): Envelope {
  const { body, model } = envelope;
  if (dialect.name !== "openai-responses" || !body.slice("input")?.includes(referenceWord)) return envelope;
  claim();
  const input: unknown = body.readWhole("input");
  if (!Array.isArray(input)) return envelope;
  const recalled = new Set<string>();
  let bytes = 0;
  const items = (input as unknown[]).map((item) => {
    const id = member(item, "type") === "item_reference" ? stringOf(member(item, "id")) : undefined;
    const found = id === undefined || recalled.has(id) ? undefined : recall(id);
    if (id === undefined || found === undefined || bytes + found.length > maxRecalledBytes) return JSON.stringify(item);
    recalled.add(id);
    bytes += found.length;
    return found;
  });
  if (recalled.size === 0) return envelope;
  const whole = readJsonBody(body.rewrite({ replace: { input: `[${items.join(",")}]` } }), dialect.mediaPlaces);
  return dialect.readEnvelope(whole, model);
}
