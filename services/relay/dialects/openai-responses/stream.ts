import {
  estimateTokens,
  isUntouched,
  member,
  stringOf,
  type Cleaner,
  type Envelope,
  type EventVerdict,
  type StreamTap,
  type Tally,
  type UpstreamError,
} from "../dialect.ts";
import { paramOf, readError } from "../openai-shared/error.ts";
import type { StreamEvent } from "../sse.ts";
import { readFinal } from "./reply.ts";
import { countTool } from "./tools.ts";

const wholeEvents = new Set(["response.completed", "response.incomplete"]);
// Sound and pictures come as base64: no text to count.
const mediaEvents = new Set(["response.audio.delta"]);

/** What is needed to write an event of the stream's own kind behind it. */
type Place = {
  response: Record<string, unknown>;
  sequence: number;
  isFailedTold: boolean;
  /** In which the provider has run code so far. */
  containers: Set<string>;
};

/** Errors come flat, or nested as in Format A; a failed response has its own. */
function errorOf(event: unknown): UpstreamError {
  const failed = member(event, "response");
  const message = stringOf(member(event, "message"));
  if (message !== undefined) {
    return { message, type: undefined, code: stringOf(member(event, "code")), ...paramOf(event) };
  }
  return readError(failed ?? event) ?? { message: "", type: undefined, code: undefined };
}

const writeEvent = (event: Record<string, unknown>): string =>
  `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`;

/** The event of a response that failed, as callers may see it. */
function failedEvent({ response, sequence }: Place, { message, code = "server_error" }: UpstreamError): string {
  const failed = { object: "response", ...response, status: "failed", error: { code, message } };
  return writeEvent({ type: "response.failed", sequence_number: sequence, response: failed });
}

function readFailure(event: unknown, place: Place, clean: Cleaner): EventVerdict {
  const error = errorOf(event);
  const cleaned = clean(error);
  const isFinal = member(event, "type") === "response.failed";
  place.isFailedTold ||= isFinal;
  if (isUntouched(error, cleaned)) return "pass";
  if (isFinal) return Buffer.from(failedEvent(place, cleaned));
  const { message, code = "server_error", param = null } = cleaned;
  return Buffer.from(writeEvent({ type: "error", code, message, param, sequence_number: place.sequence }));
}

function readContent(event: unknown, type: string, tally: Tally, { containers }: Place): void {
  const delta = type.endsWith(".delta") ? stringOf(member(event, "delta")) : undefined;
  if (delta) {
    tally.hasContent = true;
    if (!mediaEvents.has(type)) tally.contentTokens += estimateTokens(delta);
  }
  const item = member(event, "item");
  if (type === "response.output_item.added") {
    const name = stringOf(member(item, "name"));
    tally.hasContent ||= name !== undefined;
    tally.contentTokens += estimateTokens(name ?? "");
  } else if (type === "response.output_item.done") {
    countTool(item, tally, containers);
    // Also what has no deltas: encrypted reasoning, pictures, calls of the provider's tools.
    tally.hasContent ||= item !== undefined;
  }
}

function readPlace(event: unknown, place: Place): void {
  const sequence = member(event, "sequence_number");
  place.sequence = typeof sequence === "number" ? sequence : place.sequence + 1;
  const response = member(event, "response");
  if (typeof response === "object" && response !== null) place.response = response as Record<string, unknown>;
}

/**
 * Watches a Responses stream. The answer is whole at response.completed, and at response.incomplete, which a limit
 * ended. An upstream error partway always ends in response.failed, also where the upstream leaves that out.
 */
export function createTap(_envelope: Envelope, clean: Cleaner): StreamTap {
  const place: Place = { response: {}, sequence: -1, isFailedTold: false, containers: new Set() };
  let error: UpstreamError = { message: "", type: undefined, code: undefined };
  const read = ({ json: parsed }: StreamEvent, tally: Tally): EventVerdict => {
    const type = stringOf(member(parsed, "type")) ?? (member(parsed, "error") ? "error" : "");
    if (type === "") return "pass";
    readPlace(parsed, place);
    readContent(parsed, type, tally, place);
    tally.modelServed ||= stringOf(member(member(parsed, "response"), "model"));
    if (wholeEvents.has(type)) {
      readFinal(member(parsed, "response"), tally);
      tally.hasFinish = true;
      tally.isComplete = !tally.isFailed;
    } else if (type === "error" || type === "response.failed") {
      tally.isFailed = true;
      readFinal(member(parsed, "response"), tally);
      error = errorOf(parsed);
      return readFailure(parsed, place, clean);
    }
    return "pass";
  };
  const end = ({ isFailed }: Tally): string => {
    if (!isFailed || place.isFailedTold) return "";
    return failedEvent({ ...place, sequence: place.sequence + 1 }, clean(error));
  };
  return { read, end };
}
