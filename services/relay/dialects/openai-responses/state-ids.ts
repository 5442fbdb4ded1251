import { member, stringOf } from "../dialect.ts";

// Ids by which a later request can name what the provider has stored of a response.
const fieldsOfItem = ["id", "container_id", "approval_request_id"];

function* idsIn(value: unknown, fields: readonly string[]): Generator<string> {
  for (const field of fields) {
    const id = stringOf(member(value, field));
    if (id) yield id;
  }
}

function* idsInList(list: unknown, fields: readonly string[]): Generator<string> {
  if (Array.isArray(list)) for (const one of list) yield* idsIn(one, fields);
}

/** In the order in which providers write them. */
function* idsOfResponse(response: unknown): Generator<string> {
  yield* idsIn(response, ["id"]);
  // Items of the input that the provider has left out, as the caller sent them.
  yield* idsInList(member(response, "input_transformations"), ["id"]);
  yield* idsInList(member(response, "output"), fieldsOfItem);
  yield* idsIn(response, ["previous_response_id"]);
}

/** The ids of a whole response or compaction, or of an event of a stream. */
export function stateIdsOf(json: unknown): string[] {
  const itemId = stringOf(member(json, "item_id"));
  // The most common events have nothing else.
  if (itemId) return [itemId];
  if (member(json, "type") === undefined) return [...idsOfResponse(json)];
  return [...idsIn(member(json, "item"), fieldsOfItem), ...idsOfResponse(member(json, "response"))];
}
