import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function place(segment: unknown, isAscii: boolean): Pick<Citation, "start" | "end"> {
  const end = member(segment, "endIndex");
  // Places are counted in bytes, which are characters only where all of them are ASCII.
  if (!isAscii || typeof end !== "number") return {};
  // Proto JSON leaves out a 0.
  const start = member(segment, "startIndex") ?? 0;
  return typeof start === "number" ? { start, end } : {};
}

function source(url: unknown, title: unknown): Citation {
  return {
    ...(typeof url === "string" && { url }),
    ...(typeof title === "string" && { title }),
  };
}

function sourceOfChunk(chunk: unknown): Citation {
  const found = member(chunk, "web") ?? member(chunk, "retrievedContext") ?? member(chunk, "maps");
  return source(member(found, "uri"), member(found, "title"));
}

function groundingOf(grounding: unknown, isAscii: boolean): Citation[] {
  const sources = list(member(grounding, "groundingChunks")).map(sourceOfChunk);
  const supports = list(member(grounding, "groundingSupports"));
  if (supports.length === 0) return sources;
  return supports.flatMap((support) => {
    const at = place(member(support, "segment"), isAscii);
    const indices = list(member(support, "groundingChunkIndices"));
    return indices.flatMap((index) => {
      const found = typeof index === "number" ? sources[index] : undefined;
      return found ? [{ ...found, ...at }] : [];
    });
  });
}

/** Where a candidate's text comes from; `isAscii`: whether all of its text is. */
export function citationsOf(candidate: unknown, isAscii: boolean): Citation[] {
  const metadata = member(candidate, "citationMetadata");
  // The Developer API and Vertex name the list differently.
  const quoted = list(member(metadata, "citationSources") ?? member(metadata, "citations")).map((quote) => ({
    ...source(stringOf(member(quote, "uri")), member(quote, "title")),
    ...place(quote, isAscii),
  }));
  const grounded = groundingOf(member(candidate, "groundingMetadata"), isAscii);
  return [...quoted, ...grounded].filter(({ url, title }) => url !== undefined || title !== undefined);
}
