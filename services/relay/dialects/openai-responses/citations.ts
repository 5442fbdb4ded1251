import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import type { UrlCitation } from "./wire.ts";

const positionOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** Citations of an output text. Those of files name ids that mean nothing to anyone else; they are left out. */
export function readCitations(annotations: unknown): Citation[] {
  if (!Array.isArray(annotations)) return [];
  return annotations.flatMap((annotation) => readCitation(annotation) ?? []);
}

export function readCitation(annotation: unknown): Citation | undefined {
  const url = stringOf(member(annotation, "url"));
  if (member(annotation, "type") !== "url_citation" || url === undefined) return undefined;
  const title = stringOf(member(annotation, "title"));
  const start = positionOf(member(annotation, "start_index"));
  const end = positionOf(member(annotation, "end_index"));
  return {
    url,
    ...(title !== undefined && { title }),
    ...(start !== undefined && { start }),
    ...(end !== undefined && { end }),
  };
}

/** The citation as an annotation of `text`, the whole of it where no place is told; undefined without an address. */
function writeCitation({ url, title = "", start, end }: Citation, text: string): UrlCitation | undefined {
  if (url === undefined) return undefined;
  return { type: "url_citation", start_index: start ?? 0, end_index: end ?? text.length, url, title };
}

/** Citations as annotations of `text`; those without an address have no place here. */
export const writeCitations = (citations: Citation[], text: string): UrlCitation[] =>
  citations.flatMap((citation) => writeCitation(citation, text) ?? []);
