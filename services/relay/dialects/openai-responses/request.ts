import { positive, RequestError, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../request-body.ts";

/** Reads a request for a response, or for the compaction of one, whose answer is never streamed. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  // An answer that is fetched later cannot be counted, and no endpoint would fetch it.
  if (body.read("background") === true) throw new RequestError("field background must not be true");
  return {
    body,
    model,
    answer: body.read("stream") === true ? "events" : "json",
    outputCap: positive(body.read("max_output_tokens")),
    choices: 1,
    units: {},
    priceFields: {},
    wantsStreamUsage: true,
  };
}

export function readCompactEnvelope(body: RequestBody, model: string): Envelope {
  return { ...readEnvelope(body, model), answer: "json" };
}
