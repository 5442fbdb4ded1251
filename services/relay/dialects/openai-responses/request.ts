import { member, positive, RequestError, tierOf, type Envelope } from "../dialect.ts";
import { readMoreOutput } from "../more-output.ts";
import { readSwitch } from "../read-settings.ts";
import { bearer } from "../openai-shared/bearer.ts";
import { isOurNote } from "../opaque.ts";
import { landmarks, type RequestBody } from "../json/request-body.ts";

// A beta that changes what an answer holds; others are of what is not served here.
const agentsBeta = "responses_multi_agent=v1";

export function upstreamHeaders(
  credential: string,
  callerHeaders: Record<string, string | string[] | undefined>,
): string[] {
  const headers = bearer(credential);
  const hasAgents = String(callerHeaders["openai-beta"] ?? "").includes(agentsBeta);
  return hasAgents ? [...headers, "openai-beta", agentsBeta] : headers;
}

const ownCaps = ["max_output_tokens"];

/** Reads a request for a response, or for the compaction of one, whose answer is never streamed. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  // An answer that is fetched later cannot be counted, and no endpoint would fetch it.
  if (readSwitch(body, "background")) throw new RequestError("field background must not be true");
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: positive(body.read("max_output_tokens")),
    more: readMoreOutput(body, ownCaps),
    choices: 1,
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: true,
  };
}

export function readCompactEnvelope(body: RequestBody, model: string): Envelope {
  return { ...readEnvelope(body, model), answer: "json" };
}

/**
 * The caller's body with the upstream's model name, and without reasoning of other providers' models, which came with
 * a note of ours in the place of encrypted content and would be refused here.
 */
export function prepareBody({ body, model }: Envelope, upstreamModel: string): Buffer {
  const replace: Record<string, string> = upstreamModel === model ? {} : { model: JSON.stringify(upstreamModel) };
  const input = body.mayHold(landmarks.note) ? body.readWhole("input") : undefined;
  if (Array.isArray(input)) {
    replace["input"] = JSON.stringify(input.filter((item) => !isOurNote(member(item, "encrypted_content"))));
  }
  return body.rewrite({ replace });
}
