import { readTurns } from "../../html/conversation.ts";
import { readNumber, readText, type Form } from "../../html/form.ts";
import { efforts } from "../../html/playground-page.ts";
import type { PlaygroundRequest } from "../../playground-call.ts";

const maxMessageBytes = 32_768;
const maxSystemBytes = 8_192;
const maxToolsBytes = 16_384;
const maxDepth = 64;
const maxTokens = 1_000_000;
const maxAddressCharacters = 2_000;
const maxPictureCharacters = 400_000;
const pictureUrl = /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$/;
/** Fields at their most: of text each byte may take three in a form, of a picture few do. */
export const maxFormBytes = 786_432;

/** What is asked; of two models, if there is another one. */
export type Question = Omit<PlaygroundRequest, "key"> & { otherModel: string | undefined };

export function readQuestion(sent: Form): Question | undefined {
  const model = readText(sent, "model", { maxLength: 256, what: "the name of a model" });
  const system = readLines(sent, "system", maxSystemBytes);
  const message = readLines(sent, "message", maxMessageBytes);
  if (message === "") sent.refuse("message", "Write a message.");
  const otherModel =
    sent.typed("compare") === "" ? undefined : readText(sent, "compare", { maxLength: 256, what: "a name" });
  const question = {
    otherModel,
    turns: readTurns(sent),
    message,
    picture: readPicture(sent),
    tools: readTools(sent),
    system,
    temperature: readDecimal(sent, "temperature", 2),
    topP: readDecimal(sent, "top-p", 1),
    maxTokens: sent.typed("max-tokens") === "" ? undefined : readNumber(sent, "max-tokens", maxTokens),
    effort: efforts.find((effort) => effort === sent.typed("effort")),
  };
  return model === undefined || sent.errors.size > 0 ? undefined : { model, ...question };
}

/** A number from 0 on; empty: what the model does by default. */
function readDecimal(sent: Form, name: string, max: number): number | undefined {
  const text = sent.typed(name);
  if (text === "") return undefined;
  const number = /^\d(\.\d{1,5})?$/.test(text) ? Number(text) : Number.NaN;
  return number <= max ? number : sent.refuse(name, `Give a number from 0 to ${max}, such as 0.5.`);
}

/** Text of several lines, whose ends browsers send as CRLF. */
function readLines(sent: Form, name: string, maxBytes: number): string {
  const text = sent.typed(name).replaceAll("\r\n", "\n");
  if (Buffer.byteLength(text) > maxBytes) sent.refuse(name, `Use at most ${maxBytes.toLocaleString("en-US")} bytes.`);
  return text;
}

/** A picture that static/playground.js has made of a file, or the address of one. */
function readPicture(sent: Form): string | undefined {
  const file = sent.exact("picture");
  if (file !== "") {
    if (file.length <= maxPictureCharacters && pictureUrl.test(file)) return file;
    return sent.refuse("picture-address", "This file cannot be used. Take a smaller picture: PNG, JPEG, WebP or GIF.");
  }
  const address = sent.typed("picture-address");
  if (address === "") return undefined;
  if (address.length <= maxAddressCharacters && URL.parse(address)?.protocol === "https:") return address;
  return sent.refuse("picture-address", "Give an address such as https://example.org/picture.png.");
}

function readTools(sent: Form): object[] | undefined {
  const text = readLines(sent, "tools", maxToolsBytes);
  if (text === "") return undefined;
  const tools = parseJson(text);
  const isList = Array.isArray(tools) && tools.every((tool) => typeof tool === "object" && tool !== null);
  if (!isWithin(tools, maxDepth)) return sent.refuse("tools", `Put at most ${maxDepth} values into each other.`);
  if (isList && tools.length > 0) return tools as object[];
  return sent.refuse("tools", "Give a list of tools as JSON, such as the one below.");
}

/** Whether no more values than so many are in each other: whatever writes them calls itself for each. */
function isWithin(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((one) => isWithin(one, depth - 1));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
