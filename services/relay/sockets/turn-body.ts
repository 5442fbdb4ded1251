import type { RequestBody } from "../dialects/json/request-body.ts";
import { RequestError } from "../dialects/request-error.ts";
import type { CreateEvent } from "./client-event.ts";

// `stream` is said for every turn.
const fieldsOfSocket = ["type", "stream_id", "generate", "stream"];

const openBracket = 91;
const quote = 34;
const comma = Buffer.from(",");
const [textStart, textEnd] = [Buffer.from('{"role":"user","content":'), Buffer.from("}")];

/** Whether bytes between two brackets say nothing. */
const isBlank = (bytes: Buffer): boolean => bytes.every((byte) => byte <= 32);

/** What a turn adds to its conversation, as JSON values with commas between them. Throws RequestError. */
export function newItems(body: RequestBody): Buffer {
  const input = body.has("input") ? body.slice("input") : undefined;
  if (!input) return Buffer.alloc(0);
  if (input[0] === quote) return Buffer.concat([textStart, input, textEnd]);
  if (input[0] !== openBracket) throw new RequestError("field input must be a string or an array");
  const items = input.subarray(1, -1);
  return isBlank(items) ? Buffer.alloc(0) : Buffer.from(items);
}

/** Joins lists of items, of which none is empty. */
export const joinItems = (lists: readonly Buffer[]): Buffer =>
  Buffer.concat(lists.flatMap((items, at) => (at === 0 ? [items] : [comma, items])));

/** The body of the same request over HTTP. A turn that continues one of its socket brings all items before along. */
export function httpBody(
  { body, previousId }: CreateEvent,
  before: readonly Buffer[] | undefined,
  added: Buffer,
): Buffer {
  const stream = { add: { stream: "true" } };
  if (!before || previousId === undefined) return body.rewrite({ remove: fieldsOfSocket, ...stream });
  const rest = body.rewrite({ remove: [...fieldsOfSocket, "input", "previous_response_id"], ...stream });
  const items = joinItems(added.length === 0 ? before : [...before, added]);
  return Buffer.concat([Buffer.from('{"input":['), items, Buffer.from("],"), rest.subarray(1)]);
}
