import type { RequestBody } from "../dialects/json/request-body.ts";
import { RequestError } from "../dialects/request-error.ts";
import type { Continued } from "../upstream/send-turn.ts";
import type { Made } from "../upstream/turn-socket.ts";
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

/** A body whose input are these items. */
const bodyOf = (rest: Buffer, items: readonly Buffer[]): Buffer =>
  Buffer.concat([Buffer.from('{"input":['), joinItems(items), Buffer.from("],"), rest.subarray(1)]);

type Bodies = Pick<TurnInput, "body" | "continued">;

/**
 * The body of the same request over HTTP. A turn that continues one of its socket brings all items before along, and
 * has another body of what is new, for an upstream that has those items.
 */
function httpBodies({ body }: CreateEvent, before: KeptResponse | undefined, added: Buffer, holds: Holds): Bodies {
  // Last, where it is found without another look.
  const stream = { add: { stream: "true" } };
  const fields = body.read("background") === true ? fieldsOfSocket : [...fieldsOfSocket, "background"];
  if (!before) return { body: body.rewrite({ remove: fields, ...stream }), continued: undefined };
  const rest = body.rewrite({ remove: [...fields, "input", "previous_response_id"], ...stream });
  const news = added.length > 0 ? [added] : [];
  const { made } = before;
  const continued = made && holds(made) ? { made, body: bodyOf(rest, news) } : undefined;
  return { body: bodyOf(rest, [...itemsUpTo(before), ...news]), continued };
}

/** Whether an upstream still has a response. */
type Holds = (made: Made) => boolean;

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
  /** The same for an upstream that has the response before. */
  continued: Continued | undefined;
  /** Instead of a call, where nothing is to be generated. */
  warmUp: WarmUp | undefined;
};

/** Reads a turn. `take` finds the response that it continues. Throws RequestError. */
export function prepareTurn(
  event: CreateEvent,
  take: (id: string) => KeptResponse | undefined,
  holds: Holds = () => false,
): TurnInput {
  const { body, streamId, previousId, isWarmUp } = event;
  const mayStore = body.read("store") !== false;
  const warmUp = isWarmUp ? writeWarmUp(event) : undefined;
  const added = newItems(body);
  const before = previousId === undefined ? undefined : take(previousId);
  const missingId = before ? undefined : previousId;
  const bodies = warmUp ? { body: Buffer.alloc(0), continued: undefined } : httpBodies(event, before, added, holds);
  return { streamId, previousId, before, missingId, mayStore, added, ...bodies, warmUp };
}
