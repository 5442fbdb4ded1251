import type { FinishReason } from "../dialects/reply.ts";

/** What becomes of a part of an answer in another format: what it is shown as, or why nothing shows it. */
export type KindFate = { shown: string } | { lost: string };

const shown = (as: string): KindFate => ({ shown: as });
const lost = (why: string): KindFate => ({ lost: why });

const ownTool = lost("tells how the provider's own tool found the answer, which the text behind it is");
const neverAsked = lost("only answers a tool that a conversion never sends");
const ofTheAnswer = lost("tells about the answer, not of it");
const beta = lost("only comes to who asks for a beta, which no conversion does");

const responsesFile = "openai/resources/responses/responses.d.ts";
const betaResponsesFile = "openai/resources/beta/responses/responses.d.ts";
const messagesFile = "@anthropic-ai/sdk/resources/messages/messages.d.ts";
const betaMessagesFile = "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts";
const chatFile = "openai/resources/chat/completions/completions.d.ts";
const geminiFile = "@google/genai/dist/genai.d.ts";

/** A type that an official client declares, or what one field of it may be. */
type Declared = { file: string; type: string; field?: string };

/** Where the official clients' types declare the parts of answers, and what becomes of each. */
export const answerKinds: readonly {
  format: string;
  types: readonly Declared[];
  /** Whether kinds are told apart by `type`; else each field is one. */
  isByType: boolean;
  fates: Record<string, KindFate>;
}[] = [
  {
    format: "openai-responses",
    types: [
      { file: responsesFile, type: "ResponseOutputItem" },
      { file: betaResponsesFile, type: "BetaResponseOutputItem" },
    ],
    isByType: true,
    fates: {
      message: shown("text with citations and logprobs, refusals"),
      reasoning: shown("thinking, and its state"),
      function_call: shown("a tool call"),
      custom_tool_call: shown("a tool call of free text"),
      image_generation_call: shown("a picture"),
      web_search_call: ownTool,
      file_search_call: ownTool,
      code_interpreter_call: ownTool,
      mcp_call: ownTool,
      mcp_list_tools: ownTool,
      mcp_approval_request: neverAsked,
      mcp_approval_response: neverAsked,
      tool_search_call: neverAsked,
      tool_search_output: neverAsked,
      additional_tools: neverAsked,
      program: neverAsked,
      program_output: neverAsked,
      compaction: neverAsked,
      computer_call: neverAsked,
      computer_call_output: neverAsked,
      local_shell_call: neverAsked,
      local_shell_call_output: neverAsked,
      shell_call: neverAsked,
      shell_call_output: neverAsked,
      apply_patch_call: neverAsked,
      apply_patch_call_output: neverAsked,
      function_call_output: neverAsked,
      custom_tool_call_output: neverAsked,
      agent_message: beta,
      multi_agent_call: beta,
      multi_agent_call_output: beta,
    },
  },
  {
    format: "anthropic-messages",
    types: [
      { file: messagesFile, type: "ContentBlock" },
      { file: betaMessagesFile, type: "BetaContentBlock" },
    ],
    isByType: true,
    fates: {
      text: shown("text with citations"),
      thinking: shown("thinking, and its signature"),
      redacted_thinking: shown("thinking without words, and its state"),
      tool_use: shown("a tool call"),
      server_tool_use: ownTool,
      web_search_tool_result: ownTool,
      web_fetch_tool_result: ownTool,
      code_execution_tool_result: ownTool,
      bash_code_execution_tool_result: ownTool,
      text_editor_code_execution_tool_result: ownTool,
      tool_search_tool_result: ownTool,
      container_upload: neverAsked,
      advisor_tool_result: beta,
      mcp_tool_use: beta,
      mcp_tool_result: beta,
      mcp_tool_listing: beta,
      compaction: beta,
      fallback: beta,
    },
  },
  {
    format: "openai-chat",
    types: [{ file: chatFile, type: "ChatCompletionMessage" }],
    isByType: false,
    fates: {
      content: shown("text"),
      refusal: shown("a refusal"),
      annotations: shown("citations"),
      tool_calls: shown("tool calls"),
      function_call: shown("a tool call"),
      audio: lost("no other format has sound in answers; no conversion asks for it"),
      role: ofTheAnswer,
    },
  },
  {
    format: "gemini-generate, parts",
    types: [{ file: geminiFile, type: "Part" }],
    isByType: false,
    fates: {
      text: shown("text"),
      thought: shown("thinking"),
      thoughtSignature: shown("state of the part"),
      functionCall: shown("a tool call"),
      inlineData: shown("a picture; other media have no place in other formats, and no conversion asks for them"),
      executableCode: ownTool,
      codeExecutionResult: ownTool,
      toolCall: ownTool,
      toolResponse: ownTool,
      audioTranscription: neverAsked,
      functionResponse: lost("is the caller's own"),
      fileData: lost("is the caller's own"),
      mediaResolution: ofTheAnswer,
      videoMetadata: ofTheAnswer,
      partMetadata: ofTheAnswer,
      mediaProcessing: ofTheAnswer,
      speechMetadata: ofTheAnswer,
    },
  },
  {
    format: "gemini-generate, candidates",
    types: [{ file: geminiFile, type: "Candidate" }],
    isByType: false,
    fates: {
      content: shown("its parts"),
      finishReason: shown("why it ended"),
      index: shown("the number of the choice"),
      citationMetadata: shown("citations"),
      groundingMetadata: shown("citations; its searches are charged"),
      finishMessage: ofTheAnswer,
      tokenCount: ofTheAnswer,
      avgLogprobs: neverAsked,
      logprobsResult: neverAsked,
      safetyRatings: lost("no other format rates its answers; a block is told as a refusal"),
      urlContextMetadata: neverAsked,
      continuationToken: neverAsked,
    },
  },
];

/** Why answers end, as the official clients' types have it, and what each reason is read as. */
export const endingKinds: readonly {
  format: string;
  types: readonly Declared[];
  reasons: Record<string, FinishReason>;
}[] = [
  {
    format: "openai-chat",
    types: [{ file: chatFile, type: "ChatCompletion.Choice", field: "finish_reason" }],
    reasons: { stop: "stop", length: "length", content_filter: "refusal", tool_calls: "stop", function_call: "stop" },
  },
  {
    format: "openai-responses",
    types: [
      { file: responsesFile, type: "Response.IncompleteDetails", field: "reason" },
      { file: betaResponsesFile, type: "BetaResponse.IncompleteDetails", field: "reason" },
    ],
    reasons: { max_output_tokens: "length", max_messages: "length", steered: "length", content_filter: "refusal" },
  },
  {
    format: "anthropic-messages",
    types: [
      { file: messagesFile, type: "StopReason" },
      { file: betaMessagesFile, type: "BetaStopReason" },
    ],
    reasons: {
      end_turn: "stop",
      stop_sequence: "stop-sequence",
      max_tokens: "length",
      model_context_window_exceeded: "length",
      tool_use: "calls",
      pause_turn: "pause",
      refusal: "refusal",
      compaction: "pause",
    },
  },
  {
    format: "gemini-generate",
    types: [{ file: geminiFile, type: "FinishReason" }],
    reasons: {
      STOP: "stop",
      MAX_TOKENS: "length",
      CONTINUATION: "length",
      SAFETY: "refusal",
      RECITATION: "refusal",
      BLOCKLIST: "refusal",
      PROHIBITED_CONTENT: "refusal",
      SPII: "refusal",
      MODEL_ARMOR: "refusal",
      ESCALATION: "refusal",
      PUP_LIMITED_DISABLED: "refusal",
      IMAGE_SAFETY: "refusal",
      IMAGE_PROHIBITED_CONTENT: "refusal",
      IMAGE_RECITATION: "refusal",
      IMAGE_OTHER: "refusal",
      LANGUAGE: "stop",
      OTHER: "stop",
      NO_IMAGE: "stop",
      MALFORMED_FUNCTION_CALL: "stop",
      MALFORMED_RESPONSE: "stop",
      UNEXPECTED_TOOL_CALL: "stop",
      TOO_MANY_TOOL_CALLS: "stop",
      MISSING_THOUGHT_SIGNATURE: "stop",
    },
  },
];

/** The same as a table for operators. */
export function renderAnswerKinds(): string {
  const rows = answerKinds.flatMap(({ format, fates }) => {
    const byFate = new Map<string, string[]>();
    for (const [kind, fate] of Object.entries(fates)) {
      const told = "shown" in fate ? `shown as ${fate.shown}` : `not shown: ${fate.lost}`;
      byFate.set(told, [...(byFate.get(told) ?? []), `\`${kind}\``]);
    }
    return [...byFate].map(([told, kinds]) => `| ${format} | ${kinds.join(", ")} | ${told} |`);
  });
  return ["| answers of | part | for callers of other formats |", "|---|---|---|", ...rows].join("\n");
}
