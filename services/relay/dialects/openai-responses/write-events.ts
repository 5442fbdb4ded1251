import type { CallerRequest } from "../conversion.ts";
import type { UpstreamError } from "../dialect.ts";
import type { Ending, ReplyEvent, ReplyUsage } from "../reply.ts";
import { nameTools } from "./tool-names.ts";
import { endingOf } from "./finish-reasons.ts";
import { echoSettings, idBase, writeFailure, writeUsage, type ResponseObject } from "./response.ts";
import {
  abandonBlock,
  closeItem,
  finishBlock,
  startBlock,
  writeDelta,
  type Emit,
  type Writing,
} from "./write-items.ts";
import type { OutputItem } from "./wire.ts";

/** Makes a response of a reply's events. Holds the whole answer: its last event repeats all of it. */
export type ResponseWriter = {
  write: (event: ReplyEvent) => void;
  /** The response as it is now. */
  response: () => ResponseObject;
};

const nowSeconds = (): number => Math.floor(Date.now() / 1000);

function begin(writing: Writing, id: string, createdAtSeconds = nowSeconds()): ResponseObject {
  if (writing.response) return writing.response;
  writing.base = idBase(id);
  const response: ResponseObject = {
    id: `resp_${writing.base}`,
    object: "response",
    created_at: createdAtSeconds,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    model: writing.model,
    output: [],
    ...writing.settings,
    usage: null,
  };
  writing.response = response;
  writing.emit("response.created", { response });
  writing.emit("response.in_progress", { response });
  return response;
}

/** What its provider says of a refusal is shown as one, and the answer is not whole all the same. */
function finishChoice(writing: Writing, output: OutputItem[], { reason, explanation }: Ending): void {
  writing.reason = reason;
  const { hasRefusal } = writing;
  if (explanation === undefined || hasRefusal) return;
  finishBlock(writing, output);
  startBlock(writing, output, { kind: "refusal" });
  writeDelta(writing, output, explanation);
  finishBlock(writing, output);
  writing.hasRefusal = hasRefusal;
}

function finishResponse(writing: Writing, response: ResponseObject, usage: ReplyUsage | undefined): void {
  finishBlock(writing, response.output);
  const { status, details } = endingOf(writing.reason, writing.hasRefusal);
  // What an answer was cut in is not whole either.
  closeItem(writing, response.output, status);
  Object.assign(response, { status, incomplete_details: details, usage: writeUsage(usage) });
  writing.emit(`response.${status}`, { response });
}

function failResponse(writing: Writing, response: ResponseObject, error: UpstreamError): void {
  if (writing.call) closeItem(writing, response.output);
  abandonBlock(writing);
  Object.assign(response, { status: "failed", error: writeFailure(error) });
  writing.emit("response.failed", { response });
}

function writeEvent(writing: Writing, event: ReplyEvent): void {
  if (event.kind === "start") {
    begin(writing, event.id, event.createdAtSeconds);
    return;
  }
  const response = begin(writing, "");
  const { output } = response;
  if (event.kind === "finish") finishResponse(writing, response, event.usage);
  else if (event.kind === "error") failResponse(writing, response, event.error);
  // The format has one choice.
  else if (event.choice !== 0) return;
  else if (event.kind === "block-delta") writeDelta(writing, output, event.text, event.logprobs);
  else if (event.kind === "block-start") startBlock(writing, output, event.block);
  else if (event.kind === "block-end") finishBlock(writing, output);
  else if (event.kind === "choice-finish") finishChoice(writing, output, event);
  else if (writing.block && event.kind === "block-citation") writing.block.citations.push(event.citation);
  else if (writing.block && event.kind === "block-opaque") writing.block.opaque = event.opaque;
}

/** Makes a writer that tells each event of the stream to `emit`. */
export function createResponseWriter(asked: CallerRequest, emit: Emit): ResponseWriter {
  const { remember } = asked;
  const writing: Writing = {
    emit: (type, fields) => {
      if (type === "response.output_item.done") remember?.(fields["item"]);
      emit(type, fields);
    },
    model: asked.model,
    settings: echoSettings(asked),
    names: nameTools(asked.request?.["tools"]),
    base: "",
    response: undefined,
    message: undefined,
    call: undefined,
    block: undefined,
    reason: "stop",
    hasRefusal: false,
  };
  return {
    write: (event) => writeEvent(writing, event),
    response: () => begin(writing, ""),
  };
}
