import { area, form, input } from "../../html/controls.ts";
import { readNumber, readText, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { createSlots, type Slots } from "../../credentials/slots.ts";
import { playgroundKeyName, playgroundSecret } from "../../playground-key.ts";
import { askApi, type PlaygroundRequest, type Reply } from "../../playground-call.ts";
import {
  accountRoute,
  again,
  get,
  page,
  post,
  type PageResponse,
  type AccountRequest,
  type Route,
} from "../../html/route.ts";

const chatPath = "/v1/chat/completions";
const maxMessageBytes = 32_768;
const maxSystemBytes = 8_192;
const maxTokens = 1_000_000;

/** A page that asks a model for whoever is signed in, with a key that the console keeps for them. */
export function playgroundRoutes(deps: Deps): Route[] {
  const places = createSlots({ inAll: 8, ofOne: 2 });
  return [
    accountRoute(get("/playground"), "playground.use", async (request) =>
      page("Playground", html`${await questionForm(deps, request)}${liveAnswer}`),
    ),
    accountRoute(post("/playground"), "playground.use", (request) => ask(deps, places, request)),
  ];
}

async function questionForm({ relays }: Deps, request: AccountRequest): Promise<Markup> {
  const { accountId, form: sent } = request;
  const models = (await readLoadedModels(relays))?.models.filter(({ endpoints }) => endpoints.includes(chatPath)) ?? [];
  const keys = `/accounts/${accountId}/keys`;
  const keyName = playgroundKeyName(request.visitor.person.email);
  const fields = html`<p class="hint">
      Calls are charged to this account. They are made with a key of your own, <a href="${keys}">${keyName}</a>, whose
      secret nobody is shown.
    </p>
    ${input(sent, { name: "model", label: "Model", value: request.query("model"), maxLength: 256, list: "models" })}
    <datalist id="models">${models.map(({ name }) => html`<option value="${name}"></option>`)}</datalist>
    ${area(sent, { name: "system", label: "System message", rows: 2 })}
    ${area(sent, { name: "message", label: "Message", rows: 6, isRequired: true })}
    ${input(sent, { name: "max-tokens", label: "Max tokens", inputmode: "numeric", maxLength: 7, isOptional: true })}`;
  const action = `/accounts/${accountId}/playground`;
  return html`<div data-playground="/accounts/${accountId}/calls/">
    ${form(request, { action, button: "Send" }, fields)}
  </div>`;
}

// For static/playground.js, which shows it; a reader of the screen is told the answer when it is whole.
const liveAnswer = html`<section id="live-answer" aria-labelledby="live-answer-title" hidden>
  <h2 id="live-answer-title">Answer</h2>
  <p><button type="button" class="outline" data-cancel>Cancel</button></p>
  <div class="written" data-said aria-live="polite"></div>
  <p data-call hidden>Request id: <a></a></p>
</section>`;

async function ask(deps: Deps, places: Slots, request: AccountRequest): Promise<PageResponse> {
  // static/playground.js asks for the text alone.
  const isText = request.form.exact("as") === "text";
  const question = readQuestion(request.form);
  if (!question) return isText ? only(422, [...request.form.errors.values()].join(" ")) : refused(deps, request);
  const leave = places.take(request.visitor.person.personId);
  if (!leave) {
    if (isText) return only(429, tooMany);
    const body = html`<p class="problems" role="alert">${tooMany}</p>
      ${await questionForm(deps, request)}${liveAnswer}`;
    return page("Playground", body, { status: 429 });
  }
  const reply = await answerTo(deps, request, question, leave);
  if (isText) return { kind: "text", requestId: reply.requestId, pieces: inText(reply) };
  const body = html`${await questionForm(deps, request)}
    <h2>Answer</h2>`;
  return { kind: "stream", title: "Playground", body, pieces: inMarkup(request, reply) };
}

async function answerTo(deps: Deps, request: AccountRequest, question: Question, leave: () => void): Promise<Reply> {
  try {
    const key = await playgroundSecret(deps, request);
    return await askApi(deps, { ...question, key }, request.gone, leave);
  } catch (error) {
    leave();
    throw error;
  }
}

const tooMany = "Too many answers are under way. Wait until one has ended, then ask again.";

const refused = async (deps: Deps, request: AccountRequest): Promise<PageResponse> =>
  again("Playground", html`${await questionForm(deps, request)}${liveAnswer}`);

const only = (status: number, text: string): PageResponse => ({ kind: "text", status, pieces: inOne(text) });

async function* inOne(text: string): AsyncGenerator<string> {
  yield text;
}

type Question = Omit<PlaygroundRequest, "key">;

function readQuestion(sent: Form): Question | undefined {
  const model = readText(sent, "model", { maxLength: 256, what: "the name of a model" });
  const system = readLines(sent, "system", maxSystemBytes);
  const message = readLines(sent, "message", maxMessageBytes);
  if (message === "") sent.refuse("message", "Write a message.");
  const most = sent.typed("max-tokens") === "" ? undefined : readNumber(sent, "max-tokens", maxTokens);
  if (model === undefined || sent.errors.size > 0) return undefined;
  return { model, message, system, maxTokens: most };
}

/** Text of several lines, whose ends browsers send as CRLF. */
function readLines(sent: Form, name: string, maxBytes: number): string {
  const text = sent.typed(name).replaceAll("\r\n", "\n");
  if (Buffer.byteLength(text) > maxBytes) sent.refuse(name, `Use at most ${maxBytes.toLocaleString("en-US")} bytes.`);
  return text;
}

async function* inText({ pieces }: Reply): AsyncGenerator<string> {
  for await (const { kind, text } of pieces) yield kind === "said" ? text : `\n\n[${text}]`;
}

async function* inMarkup({ accountId }: AccountRequest, { requestId, pieces }: Reply): AsyncGenerator<Markup> {
  for await (const { kind, text } of pieces) {
    yield kind === "said"
      ? html`<span class="written">${text}</span>`
      : html`<p class="problems" role="alert">${text}</p>`;
  }
  if (requestId !== undefined)
    yield html`<p>Request id: <a href="/accounts/${accountId}/calls/${requestId}">${requestId}</a></p>`;
}
