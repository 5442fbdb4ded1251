import type { RequestBody } from "../json/request-body.ts";

// Of an object with two fields.
const maxBytes = 1_024;

/** What a stream shall have beside its content. Throws RequestError for more than that can say. */
export function readStreamOptions(body: RequestBody): unknown {
  return body.readWhole("stream_options", maxBytes);
}
