import { folded, isPlain } from "../json/folded-name.ts";
import type { RequestBody } from "../json/request-body.ts";
import { RequestError } from "../request-error.ts";

// Of an object with two fields.
const maxBytes = 1_024;

/**
 * What a stream shall have beside its content. Throws RequestError for more than that can say, and for a name that a
 * lenient upstream takes for the one that has it tell its counts: without them what it thinks unseen is not charged.
 */
export function readStreamOptions(body: RequestBody): unknown {
  const options = body.readWhole("stream_options", maxBytes);
  const isLookalike = (name: string): boolean => !isPlain(name) && folded(name) === "includeusage";
  if (typeof options === "object" && options !== null && Object.keys(options).some(isLookalike)) {
    throw new RequestError("field stream_options.include_usage must be written include_usage");
  }
  return options;
}
