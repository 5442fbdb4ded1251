import { wrapOpaque } from "../opaque.ts";
import type { Citation, Opaque } from "../conversation.ts";
import type { Annotation, DocumentCitation, ThinkingState } from "./wire.ts";

/** How far an answer has been written: what its annotations and states count from. Lengths in UTF-16 units. */
export type Place = {
  content: number;
  thinking: number;
  calls: number;
  /** Characters of content, or of thinking, before the open block. */
  textStart: number;
  thinkingStart: number;
  /** Entries so far of the lists that clients merge by index. */
  states: number;
  documents: number;
  annotations: number;
};

export function createPlace(): Place {
  return { content: 0, thinking: 0, calls: 0, textStart: 0, thinkingStart: 0, states: 0, documents: 0, annotations: 0 };
}

/** The state of the block of thinking that ends here. */
export function placeState(place: Place, opaque: Opaque): ThinkingState {
  const { content, calls, thinkingStart: start, thinking } = place;
  const entry = { index: place.states, start, length: thinking - start, content, calls, state: wrapOpaque(opaque) };
  place.states += 1;
  return entry;
}

/** A citation of the open text as chat's annotation, or in our own form when it has no address. */
export function placeCitation(
  place: Place,
  { url, title, text, start, end }: Citation,
): { annotation: Annotation } | { document: DocumentCitation } {
  const start_index = place.textStart + (start ?? 0);
  const end_index = end === undefined ? place.content : place.textStart + end;
  if (url !== undefined) {
    return { annotation: { type: "url_citation", url_citation: { start_index, end_index, title: title ?? "", url } } };
  }
  const said = { ...(title !== undefined && { title }), ...(text !== undefined && { text }) };
  const document = { index: place.documents, start_index, end_index, ...said };
  place.documents += 1;
  return { document };
}
