import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import type { CitationField } from "./wire.ts";

/**
 * Reads a citation of any kind. Its positions are those in the cited document, not in the text as the neutral ones
 * are, and stay out; nor does `encrypted_index` mean anything to anybody else.
 */
export function readCitation(citation: unknown): Citation {
  const url = stringOf(member(citation, "url")) ?? stringOf(member(citation, "source"));
  const title = stringOf(member(citation, "title")) ?? stringOf(member(citation, "document_title"));
  const text = stringOf(member(citation, "cited_text"));
  return {
    ...(url !== undefined && { url }),
    ...(title !== undefined && { title }),
    ...(text !== undefined && { text }),
  };
}

/** undefined for a citation without an address: this dialect points into documents of the request instead. */
export function writeCitation({ url, title, text }: Citation): CitationField | undefined {
  if (url === undefined) return undefined;
  return {
    type: "web_search_result_location",
    cited_text: text ?? "",
    url,
    title: title ?? null,
    encrypted_index: "",
  };
}
