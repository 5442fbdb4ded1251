import { readJsonBody, type RequestBody } from "../dialects/json/request-body.ts";
import { RequestError } from "../dialects/request-error.ts";
import type { MediaPlaces } from "../dialects/json/media-places.ts";

/** What asks for a response: the body of a request, and what is of the socket only. */
export type CreateEvent = {
  kind: "create";
  body: RequestBody;
  streamId: string | undefined;
  previousId: string | undefined;
  /** `generate: false`: what is sent is only kept for a turn to come. */
  isWarmUp: boolean;
};

/** What a caller sends on a socket: one event in each text frame. */
export type ClientEvent =
  | CreateEvent
  | { kind: "steer"; input: unknown; previousId: string }
  | { kind: "inject"; input: unknown; responseId: string }
  | { kind: "ignored" };

const maxIdCharacters = 256;
// Comes back with the refusal.
const maxReturnedBytes = 65_536;

/**
 * Reads a frame. Throws JsonScanError and RequestError. `response.processed` is Codex' note that it has a response,
 * and asks for nothing.
 */
export function readClientEvent(bytes: Buffer, mediaPlaces?: MediaPlaces): ClientEvent {
  const body = readJsonBody(bytes, mediaPlaces);
  const type = body.read("type");
  if (type === "response.processed") return { kind: "ignored" };
  const previousId = body.has("previous_response_id")
    ? body.readText("previous_response_id", maxIdCharacters)
    : undefined;
  if (type === "response.steer") {
    return { kind: "steer", input: body.readWhole("input", maxReturnedBytes), previousId: previousId ?? "" };
  }
  if (type === "response.inject") {
    const responseId = body.has("response_id") ? body.readText("response_id", maxIdCharacters) : undefined;
    return { kind: "inject", input: body.readWhole("input", maxReturnedBytes), responseId: responseId ?? "" };
  }
  if (type !== "response.create") throw new RequestError("field type must be response.create");
  const streamId = body.has("stream_id") ? body.readText("stream_id", maxIdCharacters) : undefined;
  if (streamId === "") throw new RequestError("field stream_id must not be empty");
  return { kind: "create", body, streamId, previousId, isWarmUp: isWarmUp(body) };
}

function isWarmUp(body: RequestBody): boolean {
  const value = body.read("generate");
  if (value === false) return true;
  if (value === undefined || value === null || value === true) return false;
  throw new RequestError("field generate must be true or false");
}
