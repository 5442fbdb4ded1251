import { randomBytes, randomInt } from "node:crypto";

// Texts that are many tokens for their length, and texts that people send.

const range = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, at) => String.fromCodePoint(first + at));

const pick = (characters: readonly string[], length: number): string =>
  Array.from({ length }, () => characters[randomInt(characters.length)]).join("");

const letters = range(97, 122);
const words = (length: number, count: number): string =>
  Array.from({ length: count }, () => pick(letters, length)).join(" ");

/** Random texts of a few thousand characters, by what they are of. */
export const denseTexts: Record<string, () => string> = {
  base64: () => randomBytes(6_000).toString("base64"),
  base64url: () => randomBytes(6_000).toString("base64url"),
  hex: () => randomBytes(4_000).toString("hex"),
  "letters in fives": () => words(5, 1_600),
  capitals: () => pick(range(65, 90), 8_000),
  "ASCII of any kind": () => pick(range(33, 126), 8_000),
  "white space": () => pick([" ", "\n", "\t", "\r"], 8_000),
  "Chinese in use": () => pick(range(0x4e00, 0x9fa5), 3_000),
  "Chinese that nobody writes": () => pick(range(0x3400, 0x4dbf), 3_000),
  Korean: () => pick(range(0xac00, 0xd7a3), 3_000),
  emoji: () => pick([...range(0x1f600, 0x1f64f), ...range(0x1f300, 0x1f5ff), ...range(0x1f900, 0x1f9ff)], 3_000),
  "minified code": () =>
    Array.from(
      { length: 500 },
      () => `function ${pick(letters, 1)}(e,t){return ${pick(letters, 2)}[e]+=t<<3,n&&r||0}`,
    ).join(";"),
  numbers: () => Array.from({ length: 1_500 }, () => Math.random().toFixed(6)).join(","),
};

/** Texts that only a caller can send: no model is asked for so much of them. */
export const denseInputs: Record<string, () => string> = {
  ...denseTexts,
  "single letters": () => "a b c d e ".repeat(800),
  "single digits": () => "1 2 3 4 5 ".repeat(800),
};

const prose =
  "The committee met on Tuesday to discuss the results of the survey. Most of the people who answered were satisfied " +
  "with the service, but a third of them asked for shorter waiting times. The office will present" +
  " a plan by the end of " +
  "the month, and the members agreed to vote on it in their next meeting. ";

/** What people send and models answer. */
export const honestTexts: Record<string, string> = {
  English: prose.repeat(6),
  German: (
    "Die Kommission hat am Mittwoch einen Vorschlag zur Neuregelung der Lieferketten vorgelegt. Unternehmen mit mehr " +
    "als tausend Beschäftigten müssen künftig nachweisen, dass ihre Zulieferer die Umweltstandards einhalten. "
  ).repeat(6),
  French: (
    "Le petit village se réveillait lentement sous une brume épaisse. Les boulangers avaient déjà" +
    " sorti les premières " +
    "fournées, et l'odeur du pain chaud se répandait dans les ruelles pavées. "
  ).repeat(6),
  Chinese:
    "昨天晚上下了一场大雨，城里很多街道都被水淹了。救援人员工作了一整夜，帮助居民离开自己的家。今天早上水开始退了。".repeat(
      8,
    ),
  Japanese:
    "昨日の夜、市内で大雨が降り、多くの道路が冠水しました。救助隊は一晩中働き、住民が家から避難するのを手伝いました。".repeat(
      8,
    ),
  Russian:
    "Вчера вечером в городе прошёл сильный дождь, и многие улицы оказались затоплены. Службы спасения" +
    " работали всю ночь. ".repeat(8),
  TypeScript: (
    "export async function readBody(request: Request, limit: number): Promise<Buffer> {\n  const" +
    " pieces: Buffer[] = [];\n" +
    "  let length = 0;\n  for await (const piece of request) {\n    length += piece.length;\n" +
    "    if (length > limit) throw " +
    "new Error(`more than ${limit} bytes`);\n    pieces.push(piece);\n  }\n  return Buffer.concat(pieces);\n}\n\n"
  ).repeat(6),
  JSON: JSON.stringify(
    Array.from({ length: 30 }, (_, id) => ({
      id,
      name: "Green tea",
      price: 4.5,
      tags: ["drink", "hot"],
      inStock: true,
    })),
    null,
    2,
  ),
};
