import type { WireLogprob } from "../openai-shared/logprobs.ts";

/** An item of `output`, as this relay writes it for callers. */
export type MessageItem = {
  type: "message";
  id: string;
  status: ItemStatus;
  role: "assistant";
  content: ContentPart[];
};

export type ItemStatus = "in_progress" | "completed" | "incomplete";

export type ContentPart =
  | { type: "output_text"; text: string; annotations: UrlCitation[]; logprobs: WireLogprob[] }
  | { type: "refusal"; refusal: string };

/** Positions count characters of the answer's text. */
export type UrlCitation = { type: "url_citation"; start_index: number; end_index: number; url: string; title: string };

export type SummaryPart = { type: "summary_text"; text: string };

export type ReasoningItem = {
  type: "reasoning";
  id: string;
  summary: SummaryPart[];
  encrypted_content?: string;
};

export type FunctionCallItem = {
  type: "function_call";
  id: string;
  status: ItemStatus;
  call_id: string;
  name: string;
  namespace?: string;
  arguments: string;
};

export type CustomCallItem = {
  type: "custom_tool_call";
  id: string;
  status: ItemStatus;
  call_id: string;
  name: string;
  namespace?: string;
  input: string;
};

export type ImageItem = {
  type: "image_generation_call";
  id: string;
  status: ItemStatus;
  result: string | null;
  output_format: string;
};

export type OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomCallItem | ImageItem;

/** Where the provider shall keep what it has read so far. */
export type CacheBreakpoint = { prompt_cache_breakpoint?: { mode: "explicit"; ttl?: "12h" } };

/** Part of a message that goes to a provider. */
export type InputPart =
  | ({ type: "input_text"; text: string } & CacheBreakpoint)
  | { type: "output_text"; text: string; annotations: UrlCitation[] }
  | { type: "refusal"; refusal: string }
  | ({ type: "input_image"; image_url: string; detail?: string } & CacheBreakpoint)
  | ({ type: "input_file"; filename?: string; file_data?: string; file_url?: string } & CacheBreakpoint)
  | { type: "input_audio"; input_audio: { data: string; format: string } };

/** An item that goes to a provider. Ids of items are left out: nothing is stored that they could name. */
export type InputItem =
  | { type: "message"; role: string; content: InputPart[] }
  | { type: "reasoning"; summary: SummaryPart[]; encrypted_content: string }
  | { type: "function_call"; call_id: string; name: string; arguments: string }
  | { type: "custom_tool_call"; call_id: string; name: string; input: string }
  | { type: "function_call_output" | "custom_tool_call_output"; call_id: string; output: string | InputPart[] };
