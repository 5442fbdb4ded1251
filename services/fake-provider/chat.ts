import {
  allInput,
  allOutput,
  type Answer,
  type Claim,
  type Frame,
  joinPieces,
  quietFrame,
  randomId,
  splitWords,
} from "./answer.ts";

const fingerprint = "fp_fa4e0f1a2b";
const finishReasons = { stop: "stop", length: "length", tools: "tool_calls" };

/** The whole answer as a chat.completion object, indented as the provider sends it. */
export function renderChat(answer: Answer): string {
  const tools = answer.tools.map((tool) => ({
    id: randomId("call_", 24),
    type: "function",
    function: { name: tool.name, arguments: tool.json },
  }));
  const message = {
    role: "assistant",
    content: isToolsOnly(answer) ? null : joinPieces(answer.text),
    ...(answer.thinking.length > 0 && { reasoning_content: joinPieces(answer.thinking) }),
    ...(tools.length > 0 && { tool_calls: tools }),
    refusal: null,
    annotations: [],
  };
  const choices = indexes(answer).map((index) => ({ index, message, logprobs: null, finish_reason: finish(answer) }));
  const whole = {
    id: randomId("chatcmpl-", 29),
    object: "chat.completion",
    created: createdSeconds(answer),
    model: answer.model,
    choices,
    ...(answer.claim && { usage: renderUsage(answer.claim) }),
    service_tier: "default",
    system_fingerprint: fingerprint,
  };
  return `${JSON.stringify(whole, null, 2)}\n`;
}

/**
 * The answer as chat.completion.chunk records: role, text, tool calls, finish; then the usage chunk if it was asked
 * for, and `[DONE]`. The choices of n > 1 take turns.
 */
export function renderChatFrames(answer: Answer): Frame[] {
  const render = chunkRenderer(answer);
  const steps = deltas(answer);
  const frames = steps.flatMap(({ delta, tokens, isContent }) =>
    indexes(answer).map((index) => ({
      data: render([{ index, delta, logprobs: null, finish_reason: null }]),
      tokens,
      isContent,
    })),
  );
  const ends = indexes(answer).map((index) =>
    quietFrame(render([{ index, delta: {}, logprobs: null, finish_reason: finish(answer) }])),
  );
  const usage = answer.claim && answer.includesUsage ? renderUsage(answer.claim) : undefined;
  const claim = usage ? [{ ...quietFrame(render([], usage)), hasClaim: true }] : [];
  return [...frames, ...ends, ...claim, quietFrame("[DONE]")];
}

/** The record by which the provider reports an error within a stream. */
export function renderChatErrorFrame(message: string): Frame {
  return quietFrame(JSON.stringify({ error: { message, type: "server_error", param: null, code: null } }));
}

type Step = { delta: Record<string, unknown>; tokens: number; isContent: boolean };

function deltas(answer: Answer): Step[] {
  const content = (delta: Record<string, unknown>, tokens: number): Step => ({ delta, tokens, isContent: true });
  const role = { role: "assistant", content: isToolsOnly(answer) ? null : "", refusal: null };
  return [
    { delta: role, tokens: 0, isContent: false },
    ...answer.thinking.map(({ text, tokens }) => content({ reasoning_content: text }, tokens)),
    ...answer.text.map(({ text, tokens }) => content({ content: text }, tokens)),
    ...answer.tools.flatMap((tool, index) => {
      const start = { index, id: randomId("call_", 24), type: "function" };
      const parts = splitWords(tool.json);
      return [
        content({ tool_calls: [{ ...start, function: { name: tool.name, arguments: "" } }] }, 1),
        ...parts.map(({ text, tokens }) => content({ tool_calls: [{ index, function: { arguments: text } }] }, tokens)),
      ];
    }),
  ];
}

function chunkRenderer(answer: Answer): (choices: object[], usage?: object) => string {
  const head = {
    id: randomId("chatcmpl-", 29),
    object: "chat.completion.chunk",
    created: createdSeconds(answer),
    model: answer.model,
    service_tier: "default",
    system_fingerprint: fingerprint,
  };
  return (choices, usage) =>
    JSON.stringify({
      ...head,
      choices,
      ...(answer.includesUsage && { usage: usage ?? null }),
      ...(answer.hasObfuscation && { obfuscation: randomId("", 5) }),
    });
}

/** A claim as chat and completions tell it. */
export function renderUsage(claim: Claim): object {
  const promptTokens = allInput(claim);
  const completionTokens = allOutput(claim);
  const written = claim.cacheWrite5mTokens + claim.cacheWrite1hTokens;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: {
      cached_tokens: claim.cacheReadTokens,
      ...(written > 0 && { cache_write_tokens: written }),
      audio_tokens: claim.audioInputTokens ?? 0,
    },
    completion_tokens_details: {
      reasoning_tokens: claim.reasoningTokens,
      audio_tokens: claim.audioOutputTokens ?? 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function isToolsOnly(answer: Answer): boolean {
  return answer.tools.length > 0 && answer.text.length === 0;
}

function finish(answer: Answer): string {
  return answer.finish.wording ?? finishReasons[answer.finish.cause];
}

function indexes(answer: Answer): number[] {
  return Array.from({ length: answer.choices }, (_, index) => index);
}

function createdSeconds(answer: Answer): number {
  return Math.floor(answer.createdAt / 1000);
}
