import { code, colon, minus, quote, skipNumber, skipSpace, skipString, skipWord, type Cursor } from "./bytes.ts";

const comma = code(",");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");

// No provider has a longer name.
const maxTypeBytes = 100;

const isNumber = (byte: number): boolean => byte === minus || (byte >= code("0") && byte <= code("9"));

/** Moves past one value of a body whose grammar was checked. */
function skipValue(cursor: Cursor): void {
  let depth = 0;
  do {
    const character = skipSpace(cursor);
    if (character === quote) skipString(cursor);
    else if (character === openBrace || character === openBracket) {
      depth += 1;
      cursor.at += 1;
    } else if (character === closeBrace || character === closeBracket) {
      depth -= 1;
      cursor.at += 1;
    } else if (character === comma || character === colon) cursor.at += 1;
    else if (isNumber(character)) skipNumber(cursor);
    else skipWord(cursor);
  } while (depth > 0);
}

/** Reads a string; undefined, and moved past, when the value is none or is longer than any that is looked for. */
function takeString(cursor: Cursor): string | undefined {
  if (skipSpace(cursor) !== quote) {
    skipValue(cursor);
    return undefined;
  }
  const start = cursor.at;
  skipString(cursor);
  if (cursor.at - start > maxTypeBytes) return undefined;
  return JSON.parse(cursor.bytes.toString("utf8", start, cursor.at)) as string;
}

/** Goes through what stands in an object or array, of which `take` moves past one at a time; past anything else. */
function enter(cursor: Cursor, open: number, close: number, take: () => void): void {
  if (skipSpace(cursor) !== open) return skipValue(cursor);
  cursor.at += 1;
  let isMore = skipSpace(cursor) !== close;
  while (isMore) {
    take();
    isMore = skipSpace(cursor) === comma;
    if (isMore) cursor.at += 1;
  }
  cursor.at += 1;
}

const smallN = code("n");

/** Tells a type; null says nothing. */
function takeType(cursor: Cursor, place: string, tell: (type: string) => void): void {
  if (skipSpace(cursor) === smallN) skipValue(cursor);
  else tell(place + (takeString(cursor) ?? ""));
}

const eachItem = (cursor: Cursor, take: () => void): void => enter(cursor, openBracket, closeBracket, take);

const eachField = (cursor: Cursor, take: (name: string | undefined) => void): void =>
  enter(cursor, openBrace, closeBrace, () => {
    const name = takeString(cursor);
    skipSpace(cursor);
    // The colon.
    cursor.at += 1;
    take(name);
  });

type Tell = (type: string) => void;

/** Moves past a tool and tells of it. */
function takeTool(cursor: Cursor, tell: Tell): void {
  eachField(cursor, (name) => {
    if (name === "type") takeType(cursor, "", tell);
    else if (name === "tools") eachItem(cursor, () => takeTool(cursor, tell));
    else if (name === "environment") {
      eachField(cursor, (inner) => {
        if (inner === "type") takeType(cursor, "environment.", tell);
        else skipValue(cursor);
      });
    } else skipValue(cursor);
  });
}

const cursorOf = (bytes: Buffer): Cursor => ({ bytes, at: 0, words: undefined, offset: 0 });

/**
 * Tells `tell` the type of each tool in a `tools` field, without building what the tools are: those in namespaces too,
 * and of a shell also where it runs, as `environment.<type>`. What is no type is told as "". A field that stands twice
 * is told twice, because the provider might obey either.
 */
export function tellToolTypes(tools: Buffer, tell: Tell): void {
  const cursor = cursorOf(tools);
  eachItem(cursor, () => takeTool(cursor, tell));
}

/**
 * The same for the `input` of Responses, whose items may bring tools along (openai 7.55, ResponseInputItem:
 * `additional_tools`, `tool_search_output`). Tools that an MCP server has listed tell no type.
 */
export function tellInputToolTypes(input: Buffer, tell: Tell): void {
  const cursor = cursorOf(input);
  eachItem(cursor, () =>
    eachField(cursor, (name) => {
      if (name === "tools") eachItem(cursor, () => takeTool(cursor, tell));
      else skipValue(cursor);
    }),
  );
}

/** Moves past a block, and past those that a compaction has kept of the changes of tools. */
function takeBlock(cursor: Cursor, tell: Tell): void {
  eachField(cursor, (name) => {
    if (name === "tool_changes") eachItem(cursor, () => takeBlock(cursor, tell));
    else if (name === "tool") {
      eachField(cursor, (inner) => {
        if (inner === "definition") takeTool(cursor, tell);
        else skipValue(cursor);
      });
    } else skipValue(cursor);
  });
}

/** The same for `messages` of Messages, whose blocks may define tools (@anthropic-ai/sdk 1.12, `tool_addition`). */
export function tellMessageToolTypes(messages: Buffer, tell: Tell): void {
  const cursor = cursorOf(messages);
  eachItem(cursor, () =>
    eachField(cursor, (name) => {
      if (name === "content") eachItem(cursor, () => takeBlock(cursor, tell));
      else skipValue(cursor);
    }),
  );
}
