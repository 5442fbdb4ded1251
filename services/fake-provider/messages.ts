import { type Answer, type AnswerTool, type Claim, type Frame, joinPieces, randomId, splitWords } from "./answer.ts";

const stopReasons = { stop: "end_turn", length: "max_tokens", tools: "tool_use" };
const signature = "EqQBCgIYAhIkZmFrZS1zaWduYXR1cmUtb2YtYS1mYWtlLXVwc3RyZWFt";

// What real streams claim at their start: a few tokens, whatever the answer will be.
const placeholderTokens = 2;

/** The whole answer as a message object. */
export function renderMessage(answer: Answer): string {
  const content = [
    ...(answer.thinking.length > 0 ? [{ type: "thinking", thinking: joinPieces(answer.thinking), signature }] : []),
    ...(hasText(answer) ? [{ type: "text", text: joinPieces(answer.text) }] : []),
    ...answer.tools.map((tool) => ({ ...toolBlock(tool), input: tool.arguments })),
  ];
  return JSON.stringify({
    ...head(answer),
    content,
    ...stop(answer),
    ...(answer.claim && { usage: renderUsage(answer.claim, answer.claim.outputTokens + answer.claim.reasoningTokens) }),
  });
}

/** The answer as Messages events, blocks one after the other, a ping after the start of the first. */
export function renderMessageFrames(answer: Answer): Frame[] {
  const message = {
    ...head(answer),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(answer.claim && { usage: renderUsage(answer.claim, placeholderTokens) }),
  };
  const [first, ...rest] = blocks(answer);
  const ping = frame("ping", {});
  return [
    frame("message_start", { message }),
    ...(first ? [first, ping] : [ping]),
    ...rest,
    { ...frame("message_delta", finalDelta(answer)), hasClaim: answer.claim !== undefined },
    frame("message_stop", {}),
  ];
}

/** The event by which the provider reports an error within a stream. */
export function renderMessagesErrorFrame(message: string, requestId: string): Frame {
  return frame("error", { error: { type: "overloaded_error", message }, request_id: requestId });
}

function frame(event: string, fields: object, tokens = 0): Frame {
  return { event, data: JSON.stringify({ type: event, ...fields }), tokens, isContent: false };
}

function blocks(answer: Answer): Frame[] {
  const parts: ((index: number) => Frame[])[] = [];
  if (answer.thinking.length > 0) {
    const deltas = answer.thinking.map(({ text, tokens }) => ({ type: "thinking_delta", thinking: text, tokens }));
    const block = { type: "thinking", thinking: "", signature: "" };
    parts.push(blockOf(block, [...deltas, { type: "signature_delta", signature, tokens: 0 }]));
  }
  if (hasText(answer)) {
    const deltas = answer.text.map(({ text, tokens }) => ({ type: "text_delta", text, tokens }));
    parts.push(blockOf({ type: "text", text: "" }, deltas));
  }
  for (const tool of answer.tools) parts.push(toolFrames(tool));
  return parts.flatMap((render, index) => render(index));
}

// Tools stream an empty fragment first; one without arguments streams nothing else.
function toolFrames(tool: AnswerTool): (index: number) => Frame[] {
  const pieces = Object.keys(tool.arguments).length > 0 ? splitWords(tool.json) : [];
  const streamedTokens = pieces.reduce((sum, { tokens }) => sum + tokens, 0);
  const fragments = pieces.map(({ text, tokens }) => ({ type: "input_json_delta", partial_json: text, tokens }));
  const empty = { type: "input_json_delta", partial_json: "", tokens: tool.tokens - streamedTokens };
  return blockOf({ ...toolBlock(tool), input: {} }, [empty, ...fragments]);
}

type Delta = { type: string; tokens: number; [field: string]: unknown };

function blockOf(block: object, deltas: Delta[]): (index: number) => Frame[] {
  return (index) => [
    frame("content_block_start", { index, content_block: block }),
    ...deltas.map(({ tokens, ...delta }) => ({
      ...frame("content_block_delta", { index, delta }, tokens),
      isContent: true,
    })),
    frame("content_block_stop", { index }),
  ];
}

function finalDelta(answer: Answer): object {
  const { claim } = answer;
  const outputTokens = claim ? claim.outputTokens + claim.reasoningTokens : 0;
  return { delta: stop(answer), ...(claim && { usage: renderCounts(claim, outputTokens) }) };
}

function renderUsage(claim: Claim, outputTokens: number): object {
  return {
    ...renderCounts(claim, outputTokens),
    // Only here, never in message_delta: who wants the split must remember it from the start of the stream.
    cache_creation: {
      ephemeral_5m_input_tokens: claim.cacheWrite5mTokens,
      ephemeral_1h_input_tokens: claim.cacheWrite1hTokens,
    },
    service_tier: "standard",
  };
}

function renderCounts(claim: Claim, outputTokens: number): object {
  return {
    input_tokens: claim.inputTokens,
    cache_creation_input_tokens: claim.cacheWrite5mTokens + claim.cacheWrite1hTokens,
    cache_read_input_tokens: claim.cacheReadTokens,
    output_tokens: outputTokens,
    ...(claim.reasoningTokens > 0 && { output_tokens_details: { thinking_tokens: claim.reasoningTokens } }),
  };
}

function head(answer: Answer): object {
  return { model: answer.model, id: randomId("msg_01", 22), type: "message", role: "assistant" };
}

function stop(answer: Answer): object {
  return { stop_reason: answer.finish.wording ?? stopReasons[answer.finish.cause], stop_sequence: null };
}

function toolBlock(tool: AnswerTool): object {
  return { type: "tool_use", id: randomId("toolu_01", 22), name: tool.name };
}

function hasText(answer: Answer): boolean {
  return answer.text.length > 0 || (answer.tools.length === 0 && answer.thinking.length === 0);
}
