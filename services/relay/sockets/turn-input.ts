import type { RequestBody } from "../dialects/json/request-body.ts";
import { RequestError } from "../dialects/request-error.ts";
import type { CreateEvent } from "./client-event.ts";
import { itemsUpTo, type KeptResponse } from "./kept-responses.ts";
import { writeWarmUp, type WarmUp } from "./warm-up.ts";

// `stream` is said for every turn.
const fieldsOfSocket = ["type", "stream_id", "generate", "stream"];

const openBracket = 91;
const quote = 34;
const comma = Buffer.from(",");
const [textStart, textEnd] = [Buffer.from('{"role":"user","content":'), Buffer.from("}")];

/** Whether bytes between two brackets say nothing. */
const isBlank = (bytes: Buffer): boolean => bytes.every((byte) => byte <= 32);

/** What a turn adds to its conversation, as JSON values with commas between them. Throws RequestError. */
function newItems(body: RequestBody): Buffer {
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
function httpBody(body: RequestBody, before: KeptResponse | undefined, added: Buffer): Buffer {
  const stream = { add: { stream: "true" } };
  if (!before) return body.rewrite({ remove: fieldsOfSocket, ...stream });
  const rest = body.rewrite({ remove: [...fieldsOfSocket, "input", "previous_response_id"], ...stream });
  const items = itemsUpTo(before);
  if (added.length > 0) items.push(added);
  return Buffer.concat([Buffer.from('{"input":['), joinItems(items), Buffer.from("],"), rest.subarray(1)]);
}

/** What is known of a turn when it begins. */
export type TurnInput = {
  streamId: string | undefined;
  previousId: string | undefined;
  /** The response that it continues: as it is kept here, or its id where it is not. */
  before: KeptResponse | undefined;
  missingId: string | undefined;
  /** Whether the caller did not say that the response shall not be stored. */
  mayStore: boolean;
  added: Buffer;
  body: Buffer;
  /** Instead of a call, where nothing is to be generated. */
  warmUp: WarmUp | undefined;
};

/** Reads a turn. `take` finds the response that it continues. Throws RequestError. */
export function prepareTurn(event: CreateEvent, take: (id: string) => KeptResponse | undefined): TurnInput {
  const { body, streamId, previousId, isWarmUp } = event;
  const mayStore = body.read("store") !== false;
  const warmUp = isWarmUp ? writeWarmUp(event) : undefined;
  const added = newItems(body);
  const before = previousId === undefined ? undefined : take(previousId);
  const missingId = before ? undefined : previousId;
  const http = warmUp ? Buffer.alloc(0) : httpBody(body, before, added);
  return { streamId, previousId, before, missingId, mayStore, added, body: http, warmUp };
}
