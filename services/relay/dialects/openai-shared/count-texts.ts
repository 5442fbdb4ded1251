import type { RequestBody } from "../json/request-body.ts";

const openBracket = "[".charCodeAt(0);
const openBrace = "{".charCodeAt(0);
const quote = '"'.charCodeAt(0);

/**
 * How many texts a field brings that are read one by one: it is a text, a list of texts (or of their parts), a list of
 * tokens, or a list of such lists. Counts to `most`.
 */
export function countTexts(body: RequestBody, field: string, most: number): number {
  const items = body.countItems(field, most);
  const isOfTexts = items?.first === openBracket || items?.first === quote || items?.first === openBrace;
  return isOfTexts ? items.count : 1;
}
