import type { Opaque, Part } from "../conversation.ts";

// `reasoning_details`, as OpenRouter and Vercel's AI Gateway tell thoughts with the state of the provider behind them
// (a signature of Claude's, encrypted reasoning of OpenAI or xAI, Gemini's thought signatures). Gemini 3 refuses calls
// that come back without it. Callers of other formats keep it as opaque state, and it goes back as it came.
// https://openrouter.ai/docs/use-cases/reasoning-tokens

type Detail = Record<string, unknown>;

const isObject = (value: unknown): value is Detail =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Details of an answer by their index, while it comes. */
export type Details = Map<unknown, Detail>;

const maxDetails = 64;
const maxStateCharacters = 262_144;

// The field that the thoughts themselves stand in, which callers get as text and give back.
const textFields: Record<string, string> = { "reasoning.text": "text", "reasoning.summary": "summary" };
const textFieldOf = ({ type }: Detail): string => textFields[String(type)] ?? "";

/** The thoughts of details, for servers that tell them nowhere else. */
export function textOf(details: unknown): string {
  if (!Array.isArray(details)) return "";
  const texts = details.filter(isObject).map((detail) => detail[textFieldOf(detail)]);
  return texts.filter((text) => typeof text === "string").join("");
}

/** Adds the details of a delta without their text; more than any answer has are left out. */
export function addDetails(known: Details, details: unknown): void {
  if (!Array.isArray(details)) return;
  for (const detail of details.filter(isObject)) {
    const key = detail["index"] ?? detail["id"];
    const before = known.get(key) ?? {};
    if (known.size >= maxDetails && !known.has(key)) return;
    const { [textFieldOf(detail)]: _text, ...rest } = detail;
    known.set(key, { ...before, ...rest });
  }
}

/** The details so far as state of a block; undefined for none, or for more than callers should have to keep. */
export function takeState(known: Details): Opaque | undefined {
  if (known.size === 0) return undefined;
  const value = Buffer.from(JSON.stringify([...known.values()])).toString("base64url");
  known.clear();
  return value.length > maxStateCharacters ? undefined : { issuer: "openai-chat", value };
}

function readState({ value }: Opaque): Detail[] {
  try {
    const details: unknown = JSON.parse(Buffer.from(value, "base64url").toString());
    return Array.isArray(details) ? details.filter(isObject).slice(0, maxDetails) : [];
  } catch {
    // A caller has changed it.
    return [];
  }
}

/** What the parts of an assistant's turn hold of details, as they go back: the text of thinking is its block's. */
export function writeDetails(parts: readonly Part[]): Detail[] {
  const all: Details = new Map();
  for (const part of parts) {
    if (!("opaque" in part) || part.opaque?.issuer !== "openai-chat") continue;
    let text = part.kind === "thinking" ? part.text : "";
    for (const detail of readState(part.opaque)) {
      const field = textFieldOf(detail);
      const key = detail["index"] ?? detail["id"];
      const isSaid = field !== "" && text !== "";
      all.set(key, { ...all.get(key), ...detail, ...(isSaid && { [field]: text }) });
      if (isSaid) text = "";
    }
  }
  return [...all.values()];
}
