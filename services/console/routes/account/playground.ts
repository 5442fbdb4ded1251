import { setTimeout } from "node:timers/promises";
import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { readTurns, type Turn, writeTurns, mayGoOn } from "../../html/conversation.ts";
import { createSlots, type Slots } from "../../credentials/slots.ts";
import type { Deps } from "../../deps.ts";
import { createForm, readNumber, readText, type Form } from "../../html/form.ts";
import { html, render, type Markup } from "../../html/html.ts";
import {
  codeOf,
  conversation,
  efforts,
  figuresOf,
  fullNote,
  playgroundForm,
  questionHead,
  settings,
} from "../../html/playground-page.ts";
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
import { readLoadedModels } from "../../loaded-models.ts";
import { askApi, chatBodyOf, type Piece, type PlaygroundRequest, type Reply } from "../../playground-call.ts";
import { playgroundKeyName, playgroundSecret } from "../../playground-key.ts";

const chatPath = "/v1/chat/completions";
const maxMessageBytes = 32_768;
const maxSystemBytes = 8_192;
const maxTokens = 1_000_000;
// Message, system message and conversation, of which each byte may take three in a form.
const bodyBytes = 262_144;
const bookedWithin = { tries: 20, gapMs: 100 };

/** A page that asks a model for whoever is signed in, with a key that the console keeps for them. */
export function playgroundRoutes(deps: Deps): Route[] {
  const places = createSlots({ inAll: 8, ofOne: 2 });
  return [
    accountRoute(get("/playground"), "playground.use", async (request) =>
      page("Playground", await body(deps, request, { sent: request.form, turns: [] })),
    ),
    accountRoute({ ...post("/playground"), bodyBytes }, "playground.use", (request) => ask(deps, places, request)),
  ];
}

type Shown = { sent: Form; turns: readonly Turn[] };

async function body(deps: Deps, request: AccountRequest, { sent, turns }: Shown): Promise<Markup> {
  const models = await chatModels(deps);
  return html`${await conversationSoFar(deps, request, turns)}${codePlace} ${formOf(request, { sent, models, turns })}`;
}

function formOf(request: AccountRequest, next: Shown & { models: readonly string[] }): Markup {
  return playgroundForm(request, { ...next, keyName: playgroundKeyName(request.visitor.person.email) });
}

/** Where static/playground.js puts the code of the last message. */
const codePlace = html`<div id="turn-code"></div>`;

async function chatModels({ relays }: Deps): Promise<string[]> {
  const models = (await readLoadedModels(relays))?.models ?? [];
  return models.filter(({ endpoints }) => endpoints.includes(chatPath)).map(({ name }) => name);
}

async function conversationSoFar(deps: Deps, request: AccountRequest, turns: readonly Turn[]): Promise<Markup> {
  const withLines = turns.map(async (turn) => ({ ...turn, line: await findLine(deps, request, turn.requestId) }));
  return conversation(request, await Promise.all(withLines));
}

/** The line by which a call was charged; billing being away is no reason to show no answer. */
async function findLine(
  { billing, log }: Deps,
  { accountId }: AccountRequest,
  rid: string,
): Promise<LedgerLine | undefined> {
  if (ridTimeMs(rid) === undefined) return undefined;
  try {
    return (await billing.getCall({ rid, accountId })).lines.findLast(({ usage }) => usage);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code !== "not_found") log.warn({ err: error, rid }, "playground could not read the cost of a call");
    return undefined;
  }
}

/** The same for a call that has just ended: it is booked a moment later. */
async function awaitLine(deps: Deps, request: AccountRequest, rid: string): Promise<LedgerLine | undefined> {
  if (ridTimeMs(rid) === undefined) return undefined;
  for (let tries = 1; ; tries += 1) {
    const line = await findLine(deps, request, rid);
    if (line || tries === bookedWithin.tries || request.gone.aborted) return line;
    await setTimeout(bookedWithin.gapMs);
  }
}

/** The fields that stay, with an empty message. */
const settingsOf = ({ form }: AccountRequest): Form =>
  createForm(Object.fromEntries(settings.map((name) => [name, form.exact(name)])));

async function ask(deps: Deps, places: Slots, request: AccountRequest): Promise<PageResponse> {
  const { form: sent, visitor } = request;
  if (sent.exact("clear") === "yes")
    return page("Playground", await body(deps, request, { sent: settingsOf(request), turns: [] }));
  // static/playground.js asks for the parts alone.
  const isLive = sent.exact("as") === "lines";
  const question = readQuestion(sent);
  if (!question) {
    if (isLive) return only(422, [...sent.errors.values()].join(" "));
    return again("Playground", await body(deps, request, { sent, turns: readTurns(sent) }));
  }
  // All that may fail is read before there is a place or an answer to give up.
  const before = isLive ? html`` : await conversationSoFar(deps, request, question.turns);
  const models = isLive ? [] : await chatModels(deps);
  const leave = places.take(visitor.person.personId);
  if (!leave) {
    if (isLive) return only(429, tooMany);
    const form = formOf(request, { sent, models, turns: question.turns });
    const markup = html`<p class="problems" role="alert">${tooMany}</p>
      ${before}${codePlace}${form}`;
    return page("Playground", markup, { status: 429 });
  }
  const reply = await answerTo(deps, request, question, leave);
  const events = answerEvents(deps, request, { question, reply });
  if (isLive) return { kind: "lines", lines: inLines(question, events) };
  const markup = html`${before}${questionHead(question.message, question.turns.length)}`;
  return { kind: "stream", title: "Playground", body: markup, pieces: inMarkup(request, { events, models }) };
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

const only = (status: number, text: string): PageResponse => ({ kind: "lines", status, lines: inOne(text) });

async function* inOne(problem: string): AsyncGenerator<object> {
  yield { problem };
}

type Question = Omit<PlaygroundRequest, "key">;

function readQuestion(sent: Form): Question | undefined {
  const model = readText(sent, "model", { maxLength: 256, what: "the name of a model" });
  const system = readLines(sent, "system", maxSystemBytes);
  const message = readLines(sent, "message", maxMessageBytes);
  if (message === "") sent.refuse("message", "Write a message.");
  const question = {
    turns: readTurns(sent),
    message,
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

/** An answer as it comes, and what there is once it has ended; `isKept`: whether it is part of the conversation. */
type AnswerEvent = Piece | { kind: "end"; figures: Markup; code: Markup; turns: readonly Turn[]; isKept: boolean };

async function* answerEvents(
  deps: Deps,
  request: AccountRequest,
  { question, reply }: { question: Question; reply: Reply },
): AsyncGenerator<AnswerEvent> {
  let answer = "";
  for await (const piece of reply.pieces) {
    if (piece.kind === "said") answer += piece.text;
    yield piece;
  }
  const { requestId = "" } = reply;
  const line = await awaitLine(deps, request, requestId);
  const isKept = answer !== "";
  const turns = isKept ? [...question.turns, { question: question.message, answer, requestId }] : question.turns;
  const figures = html`${figuresOf(request.accountId, requestId, line)}${fullNote(turns)}`;
  yield { kind: "end", figures, code: codeOf(deps.apiUrl.origin, chatBodyOf(question)), turns, isKept };
}

async function* inLines({ message, turns }: Question, events: AsyncIterable<AnswerEvent>): AsyncGenerator<object> {
  yield { question: render(questionHead(message, turns.length)) };
  for await (const event of events) {
    if (event.kind === "end") {
      const { figures, code, isKept } = event;
      const kept = mayGoOn(event.turns) ? writeTurns(event.turns) : "";
      yield { figures: render(figures), code: render(code), conversation: kept, isKept };
    } else {
      yield event.kind === "said" ? { said: event.text } : { problem: event.text };
    }
  }
}

async function* inMarkup(
  request: AccountRequest,
  { events, models }: { events: AsyncIterable<AnswerEvent>; models: readonly string[] },
): AsyncGenerator<Markup> {
  for await (const event of events) {
    if (event.kind === "end") {
      const { figures, code, turns, isKept } = event;
      const sent = isKept ? settingsOf(request) : request.form;
      yield html`${figures}${code}${formOf(request, { sent, models, turns })}`;
    } else {
      yield event.kind === "said"
        ? html`<span class="written">${event.text}</span>`
        : html`<p class="problems" role="alert">${event.text}</p>`;
    }
  }
}
