import { namesOfUnseen, type RequestBody } from "../dialects/json/request-body.ts";
import { fileAddress } from "../dialects/json/scan.ts";
import { tellInputToolTypes, tellMessageToolTypes, tellToolTypes } from "../dialects/json/tool-types.ts";

// What a request may name instead of sending it: answers and prompts that the provider keeps, files, addresses. How
// much it is only the provider's counts will say, so that such a request is held for as much as the model reads.

/** Fields at the top. */
const namingFields = ["previous_response_id", "conversation", "prompt"];
const conversations = ["messages", "input"];
const typeKey = Buffer.from('"type"');
// A key may be written in escapes, which no writer of JSON does to letters.
const escape = Buffer.from("\\u00");
const escapedLetter = /\\u00[4-7]/;

// Its two brackets.
const emptyList = 2;
const toolPlaces = [
  ["tools", tellToolTypes],
  ["input", tellInputToolTypes],
  ["messages", tellMessageToolTypes],
] as const;

const space = 32;
const colon = 58;

function isBehindType(value: Buffer, at: number): boolean {
  let before = at - 1;
  const skip = (): void => {
    while (before >= 0 && (value[before] as number) <= space) before -= 1;
  };
  skip();
  if (value[before] !== colon) return false;
  before -= 1;
  skip();
  const start = before + 1 - typeKey.length;
  return start >= 0 && value.subarray(start, before + 1).equals(typeKey);
}

function hasType(value: Buffer, type: Buffer): boolean {
  for (let at = value.indexOf(type); at !== -1; at = value.indexOf(type, at + type.length)) {
    if (isBehindType(value, at)) return true;
  }
  return false;
}

function hasEscapedLetter(value: Buffer): boolean {
  const at = value.indexOf(escape);
  return at !== -1 && escapedLetter.test(value.toString("latin1", at));
}

function namesContent(body: RequestBody, value: Buffer): boolean {
  return (
    body.mayHold(fileAddress) ||
    namesOfUnseen.keys.some((key) => body.mayHold(key)) ||
    namesOfUnseen.types.some((type) => body.mayHold(type) && hasType(value, type)) ||
    (body.hasEscapedLetters() && hasEscapedLetter(value))
  );
}

const unseenTool = /^(?:mcp|web_fetch)(?:_|$)/;

/** Whether a provider may run tools whose answers others write, the caller's own servers and pages among them. */
function hasUnseenTools(body: RequestBody): boolean {
  if ((body.slice("mcp_servers")?.length ?? 0) > emptyList) return true;
  if (!namesOfUnseen.tools.some((tool) => body.mayHold(tool)) && !body.hasEscapedLetters()) return false;
  let found = false;
  for (const [field, tellTypes] of toolPlaces) {
    const value = body.slice(field);
    if (value) tellTypes(value, (type) => (found ||= unseenTool.test(type)));
  }
  return found;
}

const known = new WeakMap<RequestBody, boolean>();

/** Whether a request names content that it does not bring along, other than pictures by their addresses. */
export function isPartlyUnseen(body: RequestBody): boolean {
  const before = known.get(body);
  if (before !== undefined) return before;
  // A prompt of Responses is an object; the older completions have a text of that name.
  const isNaming = namingFields.some((name) => {
    const first = body.slice(name)?.[0];
    return body.has(name) && (name !== "prompt" || first === 123);
  });
  const found =
    isNaming ||
    hasUnseenTools(body) ||
    conversations.some((name) => {
      const value = body.slice(name);
      return value !== undefined && namesContent(body, value);
    });
  known.set(body, found);
  return found;
}

/** Remembers what another thread has found of a body whose bytes it has. */
export const notePartlyUnseen = (body: RequestBody, isUnseen: boolean): void => void known.set(body, isUnseen);
