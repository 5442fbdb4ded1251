import { costlyNames } from "./costly-fields.ts";
import { positive } from "./dialect.ts";
import { capNames } from "./more-output.ts";
import { folded, isPlain } from "./json/folded-name.ts";
import type { RequestBody } from "./json/request-body.ts";
import { RequestError } from "./request-error.ts";

// Some upstreams are lenient: they take "true" for true, "128" for 128, and MODEL for model. What the relay would read
// otherwise than they do is served at another price than it is charged, so such a request is refused.

/** A switch; false where none is given. Throws RequestError for anything that is neither true, false nor null. */
export function readSwitch(body: RequestBody, name: string): boolean {
  const value = body.read(name);
  if (value === undefined || value === null || value === false) return false;
  if (value === true) return true;
  throw new RequestError(`field ${name} must be true or false`);
}

/**
 * A number from 1 to `most`, rounded up; undefined where none is given. Throws RequestError for what is no number and
 * for more, which some servers make, and which could not be held for.
 */
export function readCount(body: RequestBody, name: string, most: number): number | undefined {
  const value = body.read(name);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number") throw new RequestError(`field ${name} must be a number`);
  if (value > most) throw new RequestError(`field ${name} must be at most ${most}`);
  return positive(value);
}

/** Fields by which the relay decides where a request goes, what it holds and what it charges. */
const decisiveFields = new Set([
  ...costlyNames,
  ...capNames,
  "cached_content",
  "container",
  "conversation",
  "deferred",
  "file",
  "input",
  "messages",
  "model",
  "previous_response_id",
  "prediction",
  "prompt",
  "quality",
  "response_format",
  "sequential_image_generation",
  "sequential_image_generation_options",
  "service_tier",
  "size",
  "stream",
  "stream_format",
  "stream_options",
  "thread",
  "tools",
]);

const decisiveByFolded = new Map([...decisiveFields].map((name) => [folded(name), name]));

/** Throws RequestError for a field whose name a lenient upstream may take for one of those that decide. */
export function refuseLookalikes(body: RequestBody): void {
  for (const name of body.names()) {
    if (isPlain(name)) continue;
    const meant = decisiveByFolded.get(folded(name));
    if (meant !== undefined) throw new RequestError(`field ${meant} must be written ${meant}`);
  }
}
