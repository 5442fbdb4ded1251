/** What an event of a provider's stream is read for; `""`: for nothing. */
export type EventUse = "shown" | "counted" | "the end" | "an error" | "";

const responsesFile = "openai/resources/responses/responses.d.ts";
const betaResponsesFile = "openai/resources/beta/responses/responses.d.ts";
const messagesFile = "@anthropic-ai/sdk/resources/messages/messages.d.ts";
const betaMessagesFile = "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts";

type Declared = { file: string; type: string };

/** A kind of event, and one of it as a provider sends it behind those of `before`, without its type. */
type Kind = { use: EventUse; event?: object };

const none: Kind = { use: "" };
const text = { output_index: 0, content_index: 0, item_id: "i" };
const message = { id: "i", type: "message", content: [{ type: "output_text", text: "x" }] };
const call = { id: "i", type: "function_call", call_id: "c", name: "look", arguments: "" };
const whole = { id: "r", model: "m", output: [], usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } };
const piece = (event: object = {}): Kind => ({ use: "counted", event: { delta: "x", output_index: 0, ...event } });

const ofResponses: Record<string, Kind> = {
  "response.created": { use: "shown", event: { response: { id: "r", model: "m", output: [] } } },
  "response.in_progress": { use: "shown", event: { response: { id: "r", model: "m", output: [] } } },
  "response.queued": { use: "shown", event: { response: { id: "r", model: "m", output: [] } } },
  "response.completed": { use: "the end", event: { response: { ...whole, status: "completed" } } },
  "response.incomplete": { use: "the end", event: { response: { ...whole, status: "incomplete" } } },
  "response.failed": { use: "an error", event: { response: { ...whole, status: "failed", error: { message: "x" } } } },
  error: { use: "an error", event: { message: "x", code: "server_error", param: null } },
  "response.output_item.added": { use: "shown", event: { output_index: 0, item: call } },
  "response.output_item.done": { use: "shown", event: { output_index: 0, item: message } },
  "response.content_part.added": { use: "shown", event: { ...text, part: { type: "output_text", text: "" } } },
  "response.output_text.delta": { use: "shown", event: { ...text, delta: "x" } },
  "response.refusal.delta": { use: "shown", event: { ...text, delta: "x" } },
  "response.reasoning_text.delta": { use: "shown", event: { ...text, delta: "x" } },
  "response.reasoning_summary_text.delta": { use: "shown", event: { ...text, summary_index: 0, delta: "x" } },
  // What ends a part is told by its item as well, and so are names and citations.
  "response.content_part.done": none,
  "response.output_text.done": none,
  "response.output_text.annotation.added": none,
  "response.refusal.done": none,
  "response.reasoning_text.done": none,
  "response.reasoning_summary_part.added": none,
  "response.reasoning_summary_part.done": none,
  "response.reasoning_summary_text.done": none,
  "response.function_call_arguments.delta": piece(),
  "response.function_call_arguments.done": none,
  "response.custom_tool_call_input.delta": piece(),
  "response.custom_tool_call_input.done": none,
  // Of the provider's own tools the model has written what they run.
  "response.code_interpreter_call_code.delta": piece(),
  "response.code_interpreter_call_code.done": none,
  "response.code_interpreter_call.in_progress": none,
  "response.code_interpreter_call.interpreting": none,
  "response.code_interpreter_call.completed": none,
  "response.shell_call_command.delta": piece({ command_index: 0 }),
  "response.shell_call_command.added": none,
  "response.shell_call_command.done": none,
  "response.shell_call_output_content.delta": none,
  "response.shell_call_output_content.done": none,
  "response.mcp_call_arguments.delta": piece(),
  "response.mcp_call_arguments.done": none,
  "response.mcp_call.in_progress": none,
  "response.mcp_call.completed": none,
  "response.mcp_call.failed": none,
  "response.mcp_list_tools.in_progress": none,
  "response.mcp_list_tools.completed": none,
  "response.mcp_list_tools.failed": none,
  "response.file_search_call.in_progress": none,
  "response.file_search_call.searching": none,
  "response.file_search_call.completed": none,
  "response.web_search_call.in_progress": none,
  "response.web_search_call.searching": none,
  "response.web_search_call.completed": none,
  "response.image_generation_call.in_progress": none,
  "response.image_generation_call.generating": none,
  "response.image_generation_call.partial_image": none,
  "response.image_generation_call.completed": none,
  "response.compaction.compacting": none,
  "response.audio.delta": piece(),
  "response.audio.done": none,
  "response.audio.transcript.delta": piece(),
  "response.audio.transcript.done": none,
};

const ofMessages: Record<string, Kind> = {
  message_start: { use: "shown", event: { message: { id: "m", model: "m", content: [] } } },
  content_block_start: { use: "shown", event: { index: 0, content_block: { type: "text", text: "" } } },
  content_block_delta: { use: "shown", event: { index: 0, delta: { type: "text_delta", text: "x" } } },
  content_block_stop: none,
  message_delta: { use: "counted", event: { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } } },
  message_stop: { use: "the end" },
};

const part = (type: string, fields: object, use: EventUse = "shown"): Kind => ({
  use,
  event: { type: "content_block_delta", index: 0, delta: { type, ...fields } },
});

const ofDeltas: Record<string, Kind> = {
  text_delta: part("text_delta", { text: "x" }),
  citations_delta: part("citations_delta", { citation: { type: "char_location", cited_text: "x" } }),
  input_json_delta: part("input_json_delta", { partial_json: "{}" }),
  thinking_delta: part("thinking_delta", { thinking: "x" }),
  // Shown where its block ends.
  signature_delta: none,
  // Only comes to who asks for a beta, which no conversion does; it is output all the same.
  compaction_delta: part("compaction_delta", { content: "x" }, "counted"),
};

/** The blocks in which deltas stand that no text has. */
export const blocksOfDeltas: Record<string, object> = {
  input_json_delta: { type: "tool_use", id: "t", name: "look", input: {} },
  thinking_delta: { type: "thinking", thinking: "", signature: "" },
  compaction_delta: { type: "compaction", content: null },
};

/** Where the official clients' types declare the events of streams, and what becomes of each. */
export const streamKinds: readonly {
  dialect: "openai-responses" | "anthropic-messages";
  what: string;
  types: readonly Declared[];
  kinds: Record<string, Kind>;
}[] = [
  {
    dialect: "openai-responses",
    what: "event",
    types: [
      { file: responsesFile, type: "ResponseStreamEvent" },
      { file: betaResponsesFile, type: "BetaResponseStreamEvent" },
    ],
    kinds: ofResponses,
  },
  {
    dialect: "anthropic-messages",
    what: "event",
    types: [
      { file: messagesFile, type: "RawMessageStreamEvent" },
      { file: betaMessagesFile, type: "BetaRawMessageStreamEvent" },
    ],
    kinds: ofMessages,
  },
  {
    dialect: "anthropic-messages",
    what: "delta",
    types: [
      { file: messagesFile, type: "RawContentBlockDelta" },
      { file: betaMessagesFile, type: "BetaRawContentBlockDelta" },
    ],
    kinds: ofDeltas,
  },
];
