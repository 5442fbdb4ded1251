import type { StreamTap } from "../dialects/dialect.ts";
import { eventsOf } from "../dialects/event-cursor.ts";
import type { Binding } from "../threads/messages.ts";
import { sealId } from "./sealed-id.ts";

type Texts = { from: Buffer; to: Buffer };

/** Puts sealed ids into the places of a provider's own, in the JSON of one answer. Each is sealed once. */
export class IdSealer {
  private readonly binding: Binding;
  private readonly texts = new Map<string, Texts>();

  constructor(binding: Binding) {
    this.binding = binding;
  }

  /**
   * The bytes with `ids` sealed, each in the first place behind the one before, as they stand in the JSON: a long list
   * of items is gone through once. The same bytes where nothing changes.
   */
  seal(bytes: Buffer, ids: readonly string[]): Buffer {
    const [id] = ids;
    if (id === undefined) return bytes;
    // As nearly all events of a stream, which name an item and no more.
    if (ids.length === 1) return this.sealOne(bytes, id);
    const places: { start: number; texts: Texts }[] = [];
    let at = 0;
    for (const one of ids) {
      const texts = this.textsOf(one);
      if (texts.from === texts.to) continue;
      const ahead = bytes.indexOf(texts.from, at);
      const start = ahead === -1 ? bytes.indexOf(texts.from) : ahead;
      if (start === -1 || (ahead === -1 && places.some((place) => place.start === start))) continue;
      places.push({ start, texts });
      at = start + texts.from.length;
    }
    return places.length === 0 ? bytes : replaceAt(bytes, places);
  }

  private sealOne(bytes: Buffer, id: string): Buffer {
    const texts = this.textsOf(id);
    const { from, to } = texts;
    const start = from === to ? -1 : bytes.indexOf(from);
    if (start === -1) return bytes;
    const sealed = Buffer.allocUnsafe(bytes.length + to.length - from.length);
    sealed.set(bytes, 0);
    sealed.set(to, start);
    bytes.copy(sealed, start + to.length, start + from.length);
    return sealed;
  }

  /** The same for all ids that were sealed before. */
  sealKnown(bytes: Buffer): Buffer {
    return this.seal(bytes, [...this.texts.keys()]);
  }

  private textsOf(id: string): Texts {
    const known = this.texts.get(id);
    if (known) return known;
    // With the quotes: one within a text has a backslash before it, so that no part of a text is taken for an id.
    const from = Buffer.from(`"${id}"`);
    const sealed = sealId(id, this.binding);
    const texts = { from, to: sealed === id ? from : Buffer.from(`"${sealed}"`) };
    this.texts.set(id, texts);
    return texts;
  }
}

function replaceAt(bytes: Buffer, places: { start: number; texts: Texts }[]): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { start, texts } of places.toSorted((one, other) => one.start - other.start)) {
    pieces.push(bytes.subarray(at, start), texts.to);
    at = start + texts.from.length;
  }
  return Buffer.concat([...pieces, bytes.subarray(at)]);
}

/** A stream that passes, with the ids in it sealed. */
export function sealTap(tap: StreamTap, idsOf: (json: unknown) => string[], sealer: IdSealer): StreamTap {
  return {
    read: (event, tally) => {
      const verdict = tap.read(event, tally);
      if (verdict === "drop" || verdict === "end") return verdict;
      const bytes = verdict === "pass" ? event.bytes : verdict;
      if (bytes === undefined) return verdict;
      const sealed = sealer.seal(bytes, idsOf(event.json));
      return sealed === bytes ? verdict : sealed;
    },
    end: (tally) => {
      const text = tap.end(tally);
      return text === "" ? text : sealer.sealKnown(Buffer.from(text)).toString();
    },
  };
}

/** Written events, with the ids in them sealed. */
export function sealEvents(written: readonly string[], idsOf: (json: unknown) => string[], sealer: IdSealer): string[] {
  const events = eventsOf(Buffer.from(written.join("")));
  return Array.from(events, ({ bytes, json }) => sealer.seal(bytes ?? Buffer.alloc(0), idsOf(json)).toString());
}
