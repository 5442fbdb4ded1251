import type { Form } from "./form.ts";

/** A question of the playground and what was answered; `requestId` is empty where the API gave none. */
export type Turn = { question: string; answer: string; requestId: string };

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
    return Array.isArray(value) && value.every(isTurn) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isTurn(value: unknown): value is Turn {
  if (typeof value !== "object" || value === null) return false;
  return ["question", "answer", "requestId"].every((name) => typeof Reflect.get(value, name) === "string");
}
