import { type FakeDialect, type Fields, isObject } from "./dialect.ts";

/** What a request asks about. */
export type Prompt = {
  texts: string[];
  /** Texts that came as token numbers. */
  tokenLists: number[][];
  /** Where a behaviour may stand. */
  lastUserText: string;
};

/** Finds the prompt of a request, whatever its endpoint calls it. */
export function readPrompt(dialect: FakeDialect, body: Fields): Prompt {
  switch (dialect) {
    case "chat":
    case "messages":
      return readConversation(body["system"], body["messages"]);
    case "responses":
    case "compact":
      return readConversation(body["instructions"], body["input"]);
    case "gemini":
      return readContents(body["systemInstruction"] ?? body["system_instruction"], body["contents"]);
    case "completions":
    case "images":
    case "edits":
    case "transcriptions":
    case "translations":
      return readTexts(body["prompt"]);
    case "embeddings":
    case "speech":
    case "moderations":
      return readTexts(body["input"]);
  }
}

/** Tokens of a text by the fake's rule: its words. */
export function countWords(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}

// The results of calls come as turns of the user, who has not said anything then.
function readContents(instruction: unknown, contents: unknown): Prompt {
  const turns = Array.isArray(contents) ? contents.filter(isObject) : [];
  const messages = turns.map(({ role = "user", parts }) => ({
    role: Array.isArray(parts) && parts.some((part) => isObject(part) && part["text"]) ? role : "function",
    content: parts,
  }));
  return readConversation(isObject(instruction) ? instruction["parts"] : instruction, messages);
}

// A list of turns, or the only turn's text (responses).
function readConversation(instructions: unknown, turns: unknown): Prompt {
  const items = typeof turns === "string" ? [{ role: "user", content: turns }] : turns;
  const messages = Array.isArray(items) ? items.filter(isObject) : [];
  const lastUser = messages.findLast((message) => message["role"] === "user");
  const texts = messages.map((message) => textOf(message["content"] ?? message["output"]));
  return {
    texts: [textOf(instructions), ...texts],
    tokenLists: [],
    lastUserText: lastUser ? textOf(lastUser["content"]) : "",
  };
}

// A text, texts, tokens, lists of tokens, or parts of one text.
function readTexts(input: unknown): Prompt {
  const items = Array.isArray(input) ? (input as unknown[]) : [input];
  if (items.some(isObject)) {
    const text = textOf(items);
    return { texts: [text], tokenLists: [], lastUserText: text };
  }
  const texts = items.filter((item) => typeof item === "string");
  const isOneTokenList = typeof items[0] === "number";
  const tokenLists = (isOneTokenList ? [items] : items.filter(Array.isArray)) as number[][];
  return { texts, tokenLists, lastUserText: texts[0] ?? "" };
}

// Content is a string or a list of parts; only parts with a text count.
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .filter((text) => text !== "")
    .join("\n");
}
