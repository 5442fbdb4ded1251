import { declaredIn, type Declared } from "../dialects/testing/ending-kinds.ts";

/** What becomes of a part of an answer in another format: what it is shown as, or why nothing shows it. */
export type KindFate = { shown: string } | { lost: string };

const shown = (as: string): KindFate => ({ shown: as });
const lost = (why: string): KindFate => ({ lost: why });

const ownTool = lost("tells how the provider's own tool found the answer, which the text behind it is");
const neverAsked = lost("only answers a tool that a conversion never sends");
const ofTheAnswer = lost("tells about the answer, not of it");
const beta = lost("only comes to who asks for a beta, which no conversion does");

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
      { file: declaredIn.responses, type: "ResponseOutputItem" },
      { file: declaredIn.betaResponses, type: "BetaResponseOutputItem" },
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
      { file: declaredIn.messages, type: "ContentBlock" },
      { file: declaredIn.betaMessages, type: "BetaContentBlock" },
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
    types: [{ file: declaredIn.chat, type: "ChatCompletionMessage" }],
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
    types: [{ file: declaredIn.gemini, type: "Part" }],
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
    types: [{ file: declaredIn.gemini, type: "Candidate" }],
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
