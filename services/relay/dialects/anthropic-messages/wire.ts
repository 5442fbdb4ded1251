/** What the conversion writes into a Messages request; fields that it never sets are left out. */
export type RequestBlock = TextBlock | MediaBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock;

/** Left out, `ttl` is 5 minutes. */
export type CacheControl = { type: "ephemeral"; ttl?: "1h" };

export type TextBlock = { type: "text"; text: string; cache_control?: CacheControl };

export type MediaBlock = {
  type: "image" | "document";
  source: MediaBlockSource;
  title?: string;
  cache_control?: CacheControl;
};

export type MediaBlockSource =
  | { type: "base64"; media_type: string; data: string }
  | { type: "text"; media_type: "text/plain"; data: string }
  | { type: "url"; url: string };

export type ThinkingBlock =
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string };

export type ToolUseBlock = {
  type: "tool_use";
  id: string;
  name: string;
  input: Record<string, unknown>;
  cache_control?: CacheControl;
};

export type ToolResultBlock = {
  type: "tool_result";
  tool_use_id: string;
  content?: (TextBlock | MediaBlock)[];
  is_error?: true;
  cache_control?: CacheControl;
};

export type RequestMessage = { role: "user" | "assistant"; content: RequestBlock[] };

export type RequestTool = {
  name: string;
  description?: string;
  input_schema: Record<string, unknown>;
  cache_control?: CacheControl;
};

export type ToolChoiceField = {
  type: "auto" | "any" | "tool" | "none";
  name?: string;
  disable_parallel_tool_use?: true;
};

/** Where a text comes from: the one form of it that stands without a document of the same request. */
export type CitationField = {
  type: "web_search_result_location";
  cited_text: string;
  url: string;
  title: string | null;
  encrypted_index: string;
};

export type ReplyBlock =
  | { type: "text"; text: string; citations: CitationField[] | null }
  | { type: "image"; source: { type: "base64"; media_type: string; data: string } }
  | ThinkingBlock
  | (ToolUseBlock & { caller: { type: "direct" } });
