import { type Answer, type Frame, joinPieces, quietFrame, randomId } from "./answer.ts";
import { renderUsage } from "./chat.ts";
import type { Fields } from "./dialect.ts";

const fingerprint = "fp_fa4e0f1a2b";

/** The whole answer as a text_completion object. */
export function renderCompletion(answer: Answer, asked: Fields): string {
  const choices = Array.from({ length: answer.choices }, (_, index) =>
    choice(index, echoOf(asked, answer, index) + joinPieces(answer.text), finish(answer)),
  );
  const usage = answer.claim && { usage: renderUsage(answer.claim) };
  return `${JSON.stringify({ ...head(answer), choices, ...usage }, null, 2)}\n`;
}

/** The answer as text_completion records; the choices take turns. Then the usage if asked for, and `[DONE]`. */
export function renderCompletionFrames(answer: Answer, asked: Fields): Frame[] {
  const same = head(answer);
  const render = (choices: object[], usage: object | null = null): string =>
    JSON.stringify({ ...same, choices, ...(answer.includesUsage && { usage }) });
  const indexes = Array.from({ length: answer.choices }, (_, index) => index);
  const pieces = [{ text: "", tokens: 0 }, ...answer.text];
  const frames = pieces.flatMap(({ text, tokens }, position) =>
    indexes.flatMap((index): Frame[] => {
      const said = position === 0 ? echoOf(asked, answer, index) : text;
      if (said === "") return [];
      return [{ data: render([choice(index, said, null)]), tokens, isContent: true }];
    }),
  );
  const ends = indexes.map((index) => quietFrame(render([choice(index, "", finish(answer))])));
  const usage = answer.claim && answer.includesUsage ? renderUsage(answer.claim) : undefined;
  const claim = usage ? [{ ...quietFrame(render([], usage)), hasClaim: true }] : [];
  return [...frames, ...ends, ...claim, quietFrame("[DONE]")];
}

// Several prompts have their choices one after the other, each as many.
function echoOf({ echo, prompt }: Fields, { choices }: Answer, index: number): string {
  if (echo !== true) return "";
  if (!Array.isArray(prompt)) return String(prompt);
  const one: unknown = prompt[Math.floor((index * prompt.length) / choices)];
  return typeof one === "string" ? one : "";
}

function choice(index: number, text: string, reason: string | null): object {
  return { text, index, logprobs: null, finish_reason: reason };
}

function finish({ finish: { cause, wording } }: Answer): string {
  return wording ?? (cause === "length" ? "length" : "stop");
}

function head(answer: Answer): object {
  return {
    id: randomId("cmpl-", 29),
    object: "text_completion",
    created: Math.floor(answer.createdAt / 1000),
    model: answer.model,
    system_fingerprint: fingerprint,
  };
}
