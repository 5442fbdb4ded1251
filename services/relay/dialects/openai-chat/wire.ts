import type { WireLogprob } from "../openai-shared/logprobs.ts";
import type { ServerToolUse } from "../server-tools.ts";

/** A part of a message's content. */
export type ChatPart = { prompt_cache_breakpoint?: { mode: "explicit"; ttl?: "12h" } } & (
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string; detail?: string } }
  | { type: "input_audio"; input_audio: { data: string; format: "wav" | "mp3" } }
  | { type: "file"; file: { file_data: string; filename: string } }
  | { type: "refusal"; refusal: string }
);

/** Not OpenAI's: where Google's chat endpoint, and this relay, put state that only its issuer can read. */
export type ExtraContent = {
  google?: { thought_signature: string };
  relay?: { state?: string; thinking?: ThinkingState[]; citations?: DocumentCitation[] };
};

/** A citation that has no address, which chat's own annotations need; places count characters of `content`. */
export type DocumentCitation = { index: number; start_index: number; end_index: number; title?: string; text?: string };

/**
 * State of one block of thinking, and where the block stood. Lists of deltas are merged by `index` in clients, so each
 * block comes once, whole.
 */
export type ThinkingState = {
  index: number;
  /** First character of the block in `reasoning_content`, and how many there are, in UTF-16 units. */
  start: number;
  length: number;
  /** Characters of `content`, and tool calls, that came before the block. */
  content: number;
  calls: number;
  state: string;
};

export type ChatCall = { id: string; extra_content?: ExtraContent } & (
  | { type: "function"; function: { name: string; arguments: string } }
  | { type: "custom"; custom: { name: string; input: string } }
);

export type ChatMessage =
  | { role: "developer" | "system"; content: string | ChatPart[] }
  | { role: "user"; content: string | ChatPart[] }
  | { role: "tool"; tool_call_id: string; content: string | ChatPart[] }
  | AssistantMessage;

export type AssistantMessage = {
  role: "assistant";
  content?: string | ChatPart[];
  reasoning_content?: string;
  reasoning_details?: Record<string, unknown>[];
  tool_calls?: ChatCall[];
  extra_content?: ExtraContent;
};

export type ChatTool =
  | { type: "function"; function: { name: string; description?: string; parameters?: unknown; strict?: boolean } }
  | { type: "custom"; custom: { name: string; description?: string; format?: unknown } };

export type FinishName = "stop" | "length" | "tool_calls" | "content_filter" | "function_call";

export type Annotation = {
  type: "url_citation";
  url_citation: { start_index: number; end_index: number; title: string; url: string };
};

/** Not OpenAI's: where servers of models that draw, and this relay, put their pictures. */
export type ChatImage = { index: number; type: "image_url"; image_url: { url: string } };

export type ChatLogprobs = { content: WireLogprob[]; refusal: null };

export type ChatUsage = ServerToolUse & {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: {
    cached_tokens: number;
    cache_write_tokens: number;
    audio_tokens: number;
    image_tokens?: number;
  };
  completion_tokens_details: {
    reasoning_tokens: number;
    audio_tokens: number;
    accepted_prediction_tokens: number;
    rejected_prediction_tokens: number;
  };
};
