import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { maxTurns, mayGoOn, writeTurns, type Turn } from "./conversation.ts";
import { money } from "./amounts.ts";
import { callFigures, seconds } from "./call-figures.ts";
import { area, choice, input } from "./controls.ts";
import { copyButton } from "./copy-button.ts";
import type { Form } from "./form.ts";
import { html, type Markup } from "./html.ts";
import type { AccountRequest } from "./route.ts";
import { chatCode, type ChatBody } from "./snippets/chat-code.ts";
import { tabs } from "./tabs.ts";
import { count } from "./units.ts";

/** Fields that stay as they are from turn to turn. */
export const settings = [
  "model",
  "compare",
  "system",
  "temperature",
  "top-p",
  "max-tokens",
  "effort",
  "tools",
] as const;
const folded = ["system", "temperature", "top-p", "max-tokens", "effort"] as const;

export const efforts = ["minimal", "low", "medium", "high"] as const;

/** A turn with the line by which it was charged; undefined while that is not booked. */
export type ShownTurn = Turn & { line: LedgerLine | undefined; otherLine: LedgerLine | undefined };

type PlaygroundForm = { sent: Form; models: readonly string[]; turns: readonly Turn[]; keyName: string };

/** The form for the next question; the turns before it go with it. */
export function playgroundForm(request: AccountRequest, { sent, models, turns, keyName }: PlaygroundForm): Markup {
  const base = `/accounts/${request.accountId}`;
  const chosen = request.query("model") || (models[0] ?? "");
  return html`<form method="post" action="${base}/playground" data-playground novalidate>
    ${request.csrfField}<input
      type="hidden"
      name="conversation"
      autocomplete="off"
      value="${mayGoOn(turns) && writeTurns(turns)}"
    />
    <div class="side-by-side">
      ${input(sent, { name: "model", label: "Model", value: chosen, maxLength: 256, list: "models" })}
      ${input(sent, { name: "compare", label: "Compare with", maxLength: 256, list: "models", isOptional: true })}
    </div>
    <datalist id="models">${models.map((name) => html`<option value="${name}"></option>`)}</datalist>
    ${settingFields(sent)} ${toolFields(sent)} ${pictureFields(sent)}
    ${area(sent, { name: "message", label: "Message", rows: 6, isRequired: true })}
    <p class="row-of">
      <button>Send</button>
      <button class="outline" name="clear" value="yes">Clear</button>
      <button type="button" class="outline" data-cancel hidden>Cancel</button>
    </p>
    <p class="hint">
      Calls are charged to this account. They are made with a key of your own, <a href="${base}/keys">${keyName}</a>,
      whose secret nobody is shown. With each message the conversation before it is sent and charged again, to each of
      two models that are compared.
    </p>
  </form>`;
}

const hasAny = (sent: Form, names: readonly string[]): boolean =>
  names.some((name) => sent.typed(name) !== "" || sent.errors.has(name));

function toolFields(sent: Form): Markup {
  return html`<details${hasAny(sent, ["tools"]) && html` open`}>
    <summary>Tools</summary>
    ${area(sent, {
      name: "tools",
      label: "Tools as JSON",
      hint: "A list as the API takes it. What the model calls is shown, and not run.",
      rows: 6,
    })}
    <p class="hint">Such as <code>${exampleTools}</code></p>
  </details>`;
}

const exampleTools = JSON.stringify([
  {
    type: "function",
    function: {
      name: "get_weather",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
]);

/** static/playground.js shows the field for a file, makes the picture small and puts it into the hidden field. */
function pictureFields(sent: Form): Markup {
  return html`<details${hasAny(sent, ["picture-address"]) && html` open`}>
    <summary>Picture</summary>
    ${input(sent, {
      name: "picture-address",
      label: "Address of a picture",
      hint: "It begins with https:// and can be read by everybody.",
      maxLength: 2_000,
      isOptional: true,
    })}
    <div class="field" data-picture hidden>
      <label for="picture-file">Or a file (optional)</label>
      <span class="hint" id="picture-file-hint">It is made smaller, and goes with the next message alone.</span>
      <input id="picture-file" type="file" accept="image/*" aria-describedby="picture-file-hint" />
      <input type="hidden" name="picture" value="" autocomplete="off" />
    </div>
  </details>`;
}

function settingFields(sent: Form): Markup {
  const isUsed = hasAny(sent, folded);
  const choices = [["", "by default"], ...efforts.map((effort) => [effort, effort] as const)] as const;
  const number = (name: string, label: string, hint: string): Markup =>
    input(sent, { name, label, hint, inputmode: "decimal", maxLength: 7, isOptional: true });
  return html`<details${isUsed && html` open`}>
    <summary>System message and parameters</summary>
    ${area(sent, { name: "system", label: "System message", rows: 3 })}
    ${number("temperature", "Temperature", "From 0 to 2: the higher, the more varied.")}
    ${number("top-p", "Top P", "From 0 to 1: the share of likely tokens that are drawn from.")}
    ${number("max-tokens", "Max tokens", "The most tokens of an answer.")}
    ${choice(sent, {
      name: "effort",
      label: "Reasoning effort",
      hint: "Not every one takes it: leave it by default where it is refused.",
      choices,
    })}
  </details>`;
}

/** What was said so far; static/playground.js adds to it, and people who hear it are told when an answer is whole. */
export const conversation = (request: AccountRequest, turns: readonly ShownTurn[]): Markup =>
  html`<div id="conversation" aria-live="polite">${turns.map((turn, index) => shownTurn(request, turn, index))}</div>`;

function shownTurn({ accountId }: AccountRequest, turn: ShownTurn, index: number): Markup {
  const { question, picture, other, line, otherLine } = turn;
  const answers = [{ ...turn, line }, ...(other ? [{ ...other, line: otherLine }] : [])];
  const sides = answers.map(
    ({ answer, requestId, line: charged }, side) =>
      html`<div>
        ${answerHead(index, side, answers.length)}
        <div class="written">${answer}</div>
        ${figuresOf(accountId, requestId, charged)}
      </div>`,
  );
  return html`${questionHead({ question, picture }, index)}
    <div class="side-by-side">${sides}</div>`;
}

/** A question; its answers follow. */
export const questionHead = ({ question, picture }: Pick<Turn, "question" | "picture">, index: number): Markup =>
  html`<h2>Message ${index + 1}</h2>
    <div class="written">${question}</div>
    ${picture !== undefined && html`<p class="hint">With the picture ${picture}</p>`}`;

/** The heading of an answer; of two it says of which model it is, by its letter or its name. */
export const answerHead = (index: number, side: number, sides: number, model?: string): Markup =>
  html`<h2>Answer ${index + 1}${sides > 1 && ` ${"AB"[side] ?? ""}`}${sides > 1 && model && `: ${model}`}</h2>`;

/** Where static/playground.js puts the answers as they come. */
export const answerPlaces = (index: number, models: readonly string[]): Markup =>
  html`<div class="side-by-side">
    ${models.map(
      (model, side) =>
        html`<div data-side>
          ${answerHead(index, side, models.length, model)}
          <div class="written"></div>
        </div>`,
    )}
  </div>`;

/** Tokens, time and cost of a turn as they are in the ledger. */
export function figuresOf(accountId: string, requestId: string, line: LedgerLine | undefined): Markup {
  if (requestId === "") return html``;
  const link = html`Request id: <a href="/accounts/${accountId}/calls/${requestId}">${requestId}</a>`;
  const call = line?.usage;
  if (!line || !call) return html`<p class="hint">Not in the ledger yet, or free. ${link}</p>`;
  const { tokensIn, tokensOut, firstMs, allMs } = callFigures(call);
  const cached = call.usage?.cacheReadTokens ?? 0n;
  const reasoning = call.usage?.reasoningTokens ?? 0n;
  return html`<p class="hint">
    Tokens in: ${count(tokensIn)}${cached > 0n && ` (${count(cached)} cached)`} · tokens out:
    ${count(tokensOut)}${reasoning > 0n && ` (${count(reasoning)} reasoning)`}
    ${firstMs !== undefined && `· first token: ${seconds(firstMs)}`}
    ${allMs !== undefined && `· latency: ${seconds(allMs)}`} · cost: ${money(-line.amountNanos)} · ${link}
  </p>`;
}

/** What is said once a conversation cannot go on. */
export const fullNote = (turns: readonly Turn[]): Markup | undefined =>
  mayGoOn(turns)
    ? undefined
    : html`<p class="hint">
        A conversation ends after ${maxTurns} answers or 40 KiB. The next message begins a new one.
      </p>`;

/** Code that asks what was asked, without a secret. */
export function codeOf(baseUrl: string, body: ChatBody): Markup {
  const languages = chatCode(baseUrl, body).map(({ id, title, text }) => ({
    id: `turn-${id}`,
    label: title,
    body: html`<div class="scroll" tabindex="0" role="region" aria-label="Code for ${title}">
        <pre><code id="code-${id}">${text}</code></pre>
      </div>
      <p>${copyButton(`code-${id}`, `the code for ${title}`)}</p>`,
  }));
  return html`<details>
    <summary>View code</summary>
    <p>
      It asks the same as the last message did. Put the secret of a key into the variable <code>RELAY_API_KEY</code>.
    </p>
    ${tabs("Language", languages)}
  </details>`;
}
