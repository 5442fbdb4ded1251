import type { Conversation, MediaSource, Part } from "./conversation.ts";

/** What was behind an address. */
type Fetched = { mediaType: string; data: string };

const sourcesOf = (part: Part): MediaSource[] => {
  if (part.kind === "image" || part.kind === "file") return [part.source];
  return part.kind === "result" ? part.parts.flatMap(sourcesOf) : [];
};

/** Addresses of pictures and files, each once. Where a provider reads none, the relay fetches them before it writes. */
export function urlsToFetch({ turns }: Conversation): string[] {
  const sources = turns.flatMap(({ parts }) => parts.flatMap(sourcesOf));
  return [...new Set(sources.flatMap((source) => (source.kind === "url" ? [source.url] : [])))];
}

function embedSource(source: MediaSource, fetched: ReadonlyMap<string, Fetched>): MediaSource {
  const found = source.kind === "url" ? fetched.get(source.url) : undefined;
  return found ? { kind: "base64", ...found } : source;
}

function embedPart<P extends Part>(part: P, fetched: ReadonlyMap<string, Fetched>): P {
  if (part.kind === "image" || part.kind === "file") return { ...part, source: embedSource(part.source, fetched) };
  if (part.kind === "result") return { ...part, parts: part.parts.map((inner) => embedPart(inner, fetched)) };
  return part;
}

/** The conversation with what was fetched in the place of the addresses; what was not fetched stays. */
export function embedFetched(conversation: Conversation, fetched: ReadonlyMap<string, Fetched>): Conversation {
  const turns = conversation.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.map((part) => embedPart(part, fetched)),
  }));
  return { ...conversation, turns };
}
