import { code, quote, skipSpace, type Cursor } from "./bytes.ts";
import { folded, isPlain } from "./folded-name.ts";
import { cursorOf, eachField, eachItem, isObject, skipValue, takeString } from "./members.ts";

// No provider has a longer name.
const maxTypeBytes = 100;

const smallN = code("n");
const smallT = code("t");
const smallF = code("f");

/** Tells a type; null says nothing. */
function takeType(cursor: Cursor, place: string, tell: (type: string) => void): void {
  if (skipSpace(cursor) === smallN) skipValue(cursor);
  else tell(place + (takeString(cursor, maxTypeBytes) ?? ""));
}

/**
 * Tools that Gemini knows by the name of the member that they stand in (ai.google.dev/api/caching, Tool), and that it
 * bills apart. Gateways before it take them in chat as well (docs.litellm.ai/docs/providers/gemini).
 */
const ownNames = new Set([
  "googlesearch",
  "googlesearchretrieval",
  "googlemaps",
  "enterprisewebsearch",
  "codeexecution",
  "retrieval",
  "filesearch",
]);

type Tell = (type: string) => void;

/** Moves past a value that says yes or no, in words too; undefined: it is neither. */
function takeSwitch(cursor: Cursor): boolean | undefined {
  const first = skipSpace(cursor);
  if (first !== quote) {
    skipValue(cursor);
    return first === smallT ? true : first === smallF ? false : undefined;
  }
  const word = takeString(cursor, maxTypeBytes)?.toLowerCase();
  return word === "true" ? true : word === "false" ? false : undefined;
}

/**
 * Moves past the settings of Zhipu's search. Where its results are not shown, nobody can tell that it was made
 * (https://docs.bigmodel.cn/cn/guide/tools/web-search).
 */
function takeSearch(cursor: Cursor, tell: Tell): void {
  if (!isObject(cursor)) return skipValue(cursor);
  // Of two, a server takes the one or the other.
  const enabled: boolean[] = [];
  const shown: boolean[] = [];
  eachField(cursor, (name) => {
    if (name === "enable") enabled.push(takeSwitch(cursor) !== false);
    else if (name === "search_result") shown.push(takeSwitch(cursor) === true);
    else skipValue(cursor);
  });
  const isOff = enabled.length > 0 && !enabled.includes(true);
  const isShown = shown.length > 0 && !shown.includes(false);
  if (!isOff && !isShown) tell("web_search without search_result");
}

/** By which it is told what a tool costs, and what a lenient provider takes for one of these. */
const decisive = new Set(["type", "tools", "environment"]);
const isLookalike = (name: string | undefined): boolean =>
  name !== undefined && !isPlain(name) && decisive.has(folded(name));

/** Moves past a tool and tells of it; a list of them, or a text, may be one to a server that is lenient. */
function takeTool(cursor: Cursor, tell: Tell): void {
  if (!isObject(cursor)) tell("");
  eachField(cursor, (name) => {
    if (name === "type") takeType(cursor, "", tell);
    else if (name === "tools") eachItem(cursor, () => takeTool(cursor, tell));
    else if (name === "environment") {
      eachField(cursor, (inner) => {
        if (inner === "type") takeType(cursor, "environment.", tell);
        else skipValue(cursor);
      });
    } else if (name === "web_search") takeSearch(cursor, tell);
    else {
      if (isLookalike(name)) tell("");
      else if (name !== undefined && ownNames.has(folded(name))) tell(name);
      skipValue(cursor);
    }
  });
}

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
