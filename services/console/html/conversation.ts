import type { Form } from "./form.ts";

/** What a model answered; `requestId` is empty where the API gave none. */
export type Answer = { answer: string; requestId: string };

/** A question of the playground, by the address of its picture if it had one, and what was answered. */
export type Turn = Answer & {
  question: string;
  picture?: string | undefined;
  /** What the model answered that is compared with; undefined: there was none. */
  other?: Answer | undefined;
};

/** The conversation as the other model knows it. */
export const turnsOfOther = (turns: readonly Turn[]): Turn[] =>
  turns.map((turn) => (turn.other?.answer ? { ...turn, ...turn.other } : turn));

/** Turns of one conversation, and bytes of those that are sent again with the next question. */
export const maxTurns = 10;
const maxConversationBytes = 40_960;

/** Turns as a hidden field holds them: nothing of a conversation is stored. */
export const writeTurns = (turns: readonly Turn[]): string => (turns.length === 0 ? "" : JSON.stringify(turns));

/** Whether another question may follow. */
export const mayGoOn = (turns: readonly Turn[]): boolean =>
  turns.length < maxTurns && Buffer.byteLength(writeTurns(turns)) <= maxConversationBytes;

/** The turns before a question. */
export function readTurns(form: Form): Turn[] {
  const text = form.exact("conversation");
  if (text === "") return [];
  const turns = parse(text);
  if (turns && mayGoOn(turns)) return turns;
  form.refuse("conversation", "This conversation cannot be continued. Clear it.");
  return [];
}

function parse(text: string): Turn[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every(isTurn) ? value.map(knownOf) : undefined;
  } catch {
    return undefined;
  }
}

/** What else came with a turn is left out. */
const knownOf = ({ question, answer, requestId, picture, other }: Turn): Turn => ({
  question,
  answer,
  requestId,
  ...(picture !== undefined && { picture }),
  ...(other && { other: { answer: other.answer, requestId: other.requestId } }),
});

const hasTexts = (value: object, names: readonly string[]): boolean =>
  names.every((name) => typeof Reflect.get(value, name) === "string");

function isTurn(value: unknown): value is Turn {
  if (typeof value !== "object" || value === null) return false;
  const other: unknown = Reflect.get(value, "other") ?? { answer: "", requestId: "" };
  const isWhole = typeof other === "object" && other !== null && hasTexts(other, ["answer", "requestId"]);
  const names = ["question", "answer", "requestId", ...("picture" in value ? ["picture"] : [])];
  return isWhole && hasTexts(value, names);
}
