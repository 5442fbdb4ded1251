import {
  allInput,
  allOutput,
  type Answer,
  type Claim,
  type Frame,
  joinPieces,
  type Piece,
  randomId,
  splitWords,
} from "./answer.ts";
import type { Fault } from "./behaviour.ts";
import type { Fields } from "./dialect.ts";

/** An output item, finished, with the pieces in which it streams. */
type Item = { fields: Fields; kind: "reasoning" | "message" | "function_call"; pieces: Piece[] };

/** A response with its ids, so that all its events name the same. */
export type ComposedAnswer = { answer: Answer; asked: Fields; id: string; items: Item[] };

/** Gives an answer the items of a response. `asked` are the fields of the request, which a response repeats. */
export function composeResponse(answer: Answer, asked: Fields): ComposedAnswer {
  const tools = answer.tools.map((tool): Item => {
    const call = { call_id: randomId("call_", 24), name: tool.name, arguments: tool.json, status: "completed" };
    const fields = { id: randomId("fc_", 50), type: "function_call", ...call };
    return { kind: "function_call", fields, pieces: splitWords(tool.json) };
  });
  const isTextless = answer.text.length === 0 && (answer.tools.length > 0 || answer.thinking.length > 0);
  const items = [
    ...(answer.thinking.length > 0 ? [reasoningItem(answer, asked)] : []),
    ...(isTextless ? [] : [messageItem(answer)]),
    ...tools,
  ];
  return { answer, asked, id: randomId("resp_", 50), items };
}

function reasoningItem({ thinking }: Answer, { include }: Fields): Item {
  const summary = [{ type: "summary_text", text: joinPieces(thinking) }];
  const isEncrypted = Array.isArray(include) && include.includes("reasoning.encrypted_content");
  const state = isEncrypted ? { encrypted_content: randomId("gAAAAAfake-", 60) } : {};
  return {
    kind: "reasoning",
    fields: { id: randomId("rs_", 50), type: "reasoning", summary, ...state },
    pieces: thinking,
  };
}

function messageItem({ text, finish }: Answer): Item {
  const content = [outputText(joinPieces(text))];
  const status = finish.cause === "length" ? "incomplete" : "completed";
  return {
    kind: "message",
    fields: { id: randomId("msg_", 50), type: "message", status, content, role: "assistant" },
    pieces: text,
  };
}

function outputText(text: string): Fields {
  return { type: "output_text", annotations: [], logprobs: [], text };
}

/** The whole answer as a response object. */
export function renderResponse(composed: ComposedAnswer): string {
  return `${JSON.stringify(finalResponse(composed), null, 2)}\n`;
}

/** The answer as the ladder of events that real responses climb; items come one after the other. */
export function renderResponseFrames(composed: ComposedAnswer): Frame[] {
  const started = responseObject(composed, { status: "in_progress", output: [], usage: null });
  const last = finalResponse(composed);
  const steps: Step[] = [
    step("response.created", { response: started }),
    step("response.in_progress", { response: started }),
    ...composed.items.flatMap((item, index) => itemSteps(item, index)),
    { ...step(`response.${String(last["status"])}`, { response: last }), hasClaim: last["usage"] !== null },
  ];
  return steps.map(toFrame);
}

/** How the provider reports an error after so many events: by `error`, `response.failed`, or one behind the other. */
export function renderResponseErrorFrames(
  composed: ComposedAnswer,
  { kind, written, message }: { kind: Fault["kind"]; written: number; message: string },
): Frame[] {
  const error = { code: "server_error", message };
  const failed = responseObject(composed, { status: "failed", output: [], usage: null, error });
  const nested = { error: { type: "server_error", ...error, param: null } };
  const steps = [
    ...(kind === "failed-event" ? [] : [step("error", nested)]),
    ...(kind === "lone-error-event" ? [] : [step("response.failed", { response: failed })]),
  ];
  return steps.map((one, index) => toFrame(one, written + index));
}

type Step = { type: string; fields: Fields; tokens: number; isContent: boolean; hasClaim?: boolean };

function step(type: string, fields: Fields, piece?: Piece): Step {
  return { type, fields, tokens: piece?.tokens ?? 0, isContent: piece !== undefined };
}

function toFrame({ type, fields, ...rest }: Step, sequence: number): Frame {
  return { event: type, data: JSON.stringify({ type, ...fields, sequence_number: sequence }), ...rest };
}

function itemSteps(item: Item, index: number): Step[] {
  const { id } = item.fields;
  // A call's name is the first that is seen of it, and counts.
  const name = item.kind === "function_call" ? { text: "", tokens: 1 } : undefined;
  const added = step("response.output_item.added", { item: emptyItem(item), output_index: index }, name);
  const place = { item_id: id, output_index: index };
  const done = step("response.output_item.done", { item: item.fields, output_index: index });
  return [added, ...innerSteps(item, place), done];
}

function emptyItem({ fields, kind }: Item): Fields {
  if (kind === "reasoning") return { ...fields, summary: [] };
  if (kind === "message") return { ...fields, status: "in_progress", content: [] };
  return { ...fields, status: "in_progress", arguments: "" };
}

function innerSteps({ kind, pieces }: Item, place: Fields): Step[] {
  const text = joinPieces(pieces);
  const deltas = (type: string, more: Fields): Step[] =>
    pieces.map((piece) => step(type, { ...place, ...more, delta: piece.text }, piece));
  if (kind === "function_call") {
    return [
      ...deltas("response.function_call_arguments.delta", {}),
      step("response.function_call_arguments.done", { ...place, arguments: text }),
    ];
  }
  if (kind === "reasoning") {
    const at = { ...place, summary_index: 0 };
    const part = (said: string): Fields => ({ ...at, part: { type: "summary_text", text: said } });
    return [
      step("response.reasoning_summary_part.added", part("")),
      ...deltas("response.reasoning_summary_text.delta", { summary_index: 0 }),
      step("response.reasoning_summary_text.done", { ...at, text }),
      step("response.reasoning_summary_part.done", part(text)),
    ];
  }
  const at = { ...place, content_index: 0 };
  return [
    step("response.content_part.added", { ...at, part: outputText("") }),
    ...deltas("response.output_text.delta", { content_index: 0, logprobs: [] }),
    step("response.output_text.done", { ...at, text, logprobs: [] }),
    step("response.content_part.done", { ...at, part: outputText(text) }),
  ];
}

function finalResponse(composed: ComposedAnswer): Fields {
  const { answer, items } = composed;
  const isCut = answer.finish.cause === "length";
  return responseObject(composed, {
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: answer.finish.wording ?? "max_output_tokens" } : null,
    completed_at: isCut ? null : seconds(answer),
    output: items.map(({ fields }) => fields),
    usage: answer.claim ? renderResponseUsage(answer.claim) : null,
  });
}

function responseObject({ answer, asked, id }: ComposedAnswer, fields: Fields): Fields {
  const repeated = {
    instructions: null,
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: {},
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: true,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    user: null,
  };
  const told = Object.entries(repeated).map(([name, value]) => [name, asked[name] ?? value]);
  return {
    id,
    object: "response",
    created_at: seconds(answer),
    status: "in_progress",
    background: false,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: answer.model,
    service_tier: "default",
    ...Object.fromEntries(told),
    ...fields,
  };
}

/** A claim as responses and compactions tell it. */
export function renderResponseUsage(claim: Claim): Fields {
  const written = claim.cacheWrite5mTokens + claim.cacheWrite1hTokens;
  return {
    input_tokens: allInput(claim),
    input_tokens_details: {
      cached_tokens: claim.cacheReadTokens,
      ...(written > 0 && { cache_write_tokens: written }),
    },
    output_tokens: allOutput(claim),
    output_tokens_details: { reasoning_tokens: claim.reasoningTokens },
    total_tokens: allInput(claim) + allOutput(claim),
  };
}

function seconds({ createdAt }: Answer): number {
  return Math.floor(createdAt / 1000);
}
