import type { ProviderConversion, StreamReader, StreamWriter } from "../dialects/conversion.ts";
import type { Retelling } from "../dialects/dialect.ts";
import type { ReplyEvent } from "../dialects/reply.ts";

type Delta = Extract<ReplyEvent, { kind: "block-delta" }>;

/** The delta of a text where nothing else was told. */
function soleDelta(events: readonly ReplyEvent[]): Delta | undefined {
  const [event] = events;
  return events.length === 1 && event?.kind === "block-delta" && !event.logprobs ? event : undefined;
}

/** A stream's events retold, and `note`, which is to be told what each event says that was read. */
export type Retold = { retelling: Retelling; note: (events: readonly ReplyEvent[]) => void };

/**
 * Makes what translates the deltas of a text without parsing their events: nearly all events of an answer go on with
 * the block that is open, and differ only in how.
 */
export function createRetelling(reader: StreamReader, provider: ProviderConversion, writer: StreamWriter): Retold {
  let sole: Delta | undefined;
  // Of the event before: its content, when that is known to be all that it told.
  let followed: Delta | undefined;
  let choice: number | undefined;
  const retelling: Retelling = {
    isContentAlone: (first, second, content) => {
      const fresh = provider.createStreamReader();
      fresh.read(first.json);
      return soleDelta(fresh.read(second.json))?.text === content;
    },
    follow: (content) => {
      const delta = content !== undefined && sole?.text === content ? sole : undefined;
      // Two of them, lest what is read be another text that happens to be the same.
      const isFollowing = delta && followed?.choice === delta.choice && followed.text !== content;
      choice = isFollowing ? delta.choice : undefined;
      followed = delta;
    },
    retell: (text) => {
      if (choice === undefined || text === "" || !reader.takeDelta?.(choice, text)) return undefined;
      return Buffer.from(writer.write({ kind: "block-delta", choice, text }));
    },
  };
  const note = (events: readonly ReplyEvent[]): void => {
    sole = soleDelta(events);
    choice = undefined;
  };
  return { retelling, note };
}
