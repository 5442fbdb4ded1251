import { setTimeout } from "node:timers/promises";
import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { mayGoOn, readTurns, turnsOfOther, writeTurns, type Answer, type Turn } from "../../html/conversation.ts";
import { createSlots, type Slots } from "../../credentials/slots.ts";
import type { Deps } from "../../deps.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, render, type Markup } from "../../html/html.ts";
import {
  answerHead,
  answerPlaces,
  codeOf,
  conversation,
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
import { inOrder, interleave } from "../../interleave.ts";
import { askApi, chatBodyOf, type Piece, type PlaygroundRequest, type Reply } from "../../playground-call.ts";
import { playgroundKeyName, playgroundSecret } from "../../playground-key.ts";
import { maxFormBytes, readQuestion, type Question } from "./playground-question.ts";

const chatPath = "/v1/chat/completions";
const bookedWithin = { tries: 20, gapMs: 100 };

/** A page that asks a model for whoever is signed in, with a key that the console keeps for them. */
export function playgroundRoutes(deps: Deps): Route[] {
  const places = createSlots({ inAll: 8, ofOne: 2 });
  return [
    accountRoute(get("/playground"), "playground.use", async (request) =>
      page("Playground", await body(deps, request, { sent: request.form, turns: [] })),
    ),
    accountRoute({ ...post("/playground"), bodyBytes: maxFormBytes }, "playground.use", (request) =>
      ask(deps, places, request),
    ),
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
  const withLines = turns.map(async (turn) => {
    const rids = [turn.requestId, turn.other?.requestId ?? ""];
    const [line, otherLine] = await Promise.all(rids.map((rid) => findLine(deps, request, rid)));
    return { ...turn, line, otherLine };
  });
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
  const asked = askedOf(question);
  const leave = takePlaces(places, visitor.person.personId, asked.length);
  if (!leave) {
    if (isLive) return only(429, tooMany);
    const form = formOf(request, { sent, models, turns: question.turns });
    const markup = html`<p class="problems" role="alert">${tooMany}</p>
      ${before}${codePlace}${form}`;
    return page("Playground", markup, { status: 429 });
  }
  const replies = await answersTo(deps, request, asked, leave);
  const events = answerEvents(deps, request, { question, replies, join: isLive ? interleave : inOrder });
  if (isLive) return { kind: "lines", lines: inLines(question, events) };
  const { message, picture, turns } = withoutFile(question);
  const head = questionHead({ question: message, picture }, turns.length);
  const pieces = inMarkup(request, { question, events, models });
  return { kind: "stream", title: "Playground", body: html`${before}${head}`, pieces };
}

type Asked = Omit<PlaygroundRequest, "key">;

/** The same question for each of the models, with the conversation that each has had. */
const askedOf = ({ otherModel, ...question }: Question): Asked[] =>
  otherModel === undefined
    ? [question]
    : [question, { ...question, model: otherModel, turns: turnsOfOther(question.turns) }];

/** As many places as there are answers, or none. */
function takePlaces(places: Slots, personId: string, count: number): (() => void)[] | undefined {
  const taken: (() => void)[] = [];
  while (taken.length < count) {
    const leave = places.take(personId);
    if (!leave) {
      for (const one of taken) one();
      return undefined;
    }
    taken.push(leave);
  }
  return taken;
}

async function answersTo(
  deps: Deps,
  request: AccountRequest,
  asked: readonly Asked[],
  leave: readonly (() => void)[],
): Promise<Reply[]> {
  const leaveAll = (): void => leave.forEach((one) => one());
  try {
    const key = await playgroundSecret(deps, request);
    return await Promise.all(
      asked.map((one, side) => askApi(deps, { ...one, key }, request.gone, leave[side] ?? leaveAll)),
    );
  } catch (error) {
    leaveAll();
    throw error;
  }
}

const tooMany = "Too many answers are under way. Wait until one has ended, then ask again.";

const only = (status: number, text: string): PageResponse => ({ kind: "lines", status, lines: inOne(text) });

async function* inOne(problem: string): AsyncGenerator<object> {
  yield { problem };
}

/** A piece of an answer, or all of it once it has ended. */
type SideEvent = { side: number } & (Piece | ({ kind: "answered"; figures: Markup } & Answer));

/** Answers as they come, and what there is once they have ended; `isKept`: whether the conversation has them. */
type AnswerEvent = SideEvent | { kind: "end"; note: Markup; code: Markup; turns: readonly Turn[]; isKept: boolean };

async function* answerOf(
  deps: Deps,
  request: AccountRequest,
  { requestId = "", pieces }: Reply,
  side: number,
): AsyncGenerator<SideEvent> {
  let answer = "";
  for await (const piece of pieces) {
    if (piece.kind === "said") answer += piece.text;
    yield { ...piece, side };
  }
  const figures = figuresOf(request.accountId, requestId, await awaitLine(deps, request, requestId));
  yield { kind: "answered", side, answer, requestId, figures };
}

type Answering = { question: Question; replies: readonly Reply[]; join: typeof interleave<SideEvent> };

async function* answerEvents(
  deps: Deps,
  request: AccountRequest,
  { question, replies, join }: Answering,
): AsyncGenerator<AnswerEvent> {
  const answers: Answer[] = [];
  for await (const event of join(replies.map((reply, side) => answerOf(deps, request, reply, side)))) {
    if (event.kind === "answered") answers[event.side] = { answer: event.answer, requestId: event.requestId };
    yield event;
  }
  const [first, other] = answers;
  const isKept = first !== undefined && first.answer !== "";
  const turns = isKept ? [...question.turns, turnOf(question, first, other)] : question.turns;
  const code = codeOf(deps.apiUrl.origin, chatBodyOf(withoutFile(question)));
  yield { kind: "end", note: html`${fullNote(turns)}`, code, turns, isKept };
}

/** A picture of a file is too large to be kept, and to be read in code. */
const isFile = (picture: string | undefined): boolean => picture?.startsWith("data:") === true;

const withoutFile = (question: Question): Question =>
  isFile(question.picture) ? { ...question, picture: `${question.picture?.split(",")[0] ?? ""},...` } : question;

const turnOf = ({ message, picture }: Question, first: Answer, other: Answer | undefined): Turn => ({
  question: message,
  ...first,
  ...(picture !== undefined && !isFile(picture) && { picture }),
  ...(other && { other }),
});

const modelsOf = ({ model, otherModel }: Question): string[] =>
  otherModel === undefined ? [model] : [model, otherModel];

async function* inLines(question: Question, events: AsyncIterable<AnswerEvent>): AsyncGenerator<object> {
  const index = question.turns.length;
  const { picture } = withoutFile(question);
  const head = questionHead({ question: question.message, picture }, index);
  yield { question: render(html`${head}${answerPlaces(index, modelsOf(question))}`) };
  for await (const event of events) {
    if (event.kind === "end") {
      const { note, code, isKept } = event;
      const kept = mayGoOn(event.turns) ? writeTurns(event.turns) : "";
      yield { note: render(note), code: render(code), conversation: kept, isKept };
    } else if (event.kind === "answered") {
      yield { side: event.side, figures: render(event.figures) };
    } else {
      yield { side: event.side, [event.kind]: event.text };
    }
  }
}

type Shaping = { question: Question; events: AsyncIterable<AnswerEvent>; models: readonly string[] };

/** Answers one below the other: a page without script is written from its beginning to its end. */
async function* inMarkup(request: AccountRequest, { question, events, models }: Shaping): AsyncGenerator<Markup> {
  const asked = modelsOf(question);
  const headOf = (side: number): Markup =>
    html`${answerHead(question.turns.length, side, asked.length, asked[side] ?? "")}`;
  yield headOf(0);
  for await (const event of events) {
    if (event.kind === "end") {
      const { note, code, turns, isKept } = event;
      const sent = isKept ? settingsOf(request) : request.form;
      yield html`${note}${code}${formOf(request, { sent, models, turns })}`;
    } else if (event.kind === "answered") {
      yield html`${event.figures}${event.side + 1 < asked.length && headOf(event.side + 1)}`;
    } else {
      yield pieceMarkup(event);
    }
  }
}

function pieceMarkup({ kind, text }: Piece): Markup {
  if (kind === "said") return html`<span class="written">${text}</span>`;
  if (kind === "call") return html`<p>Tool call: <code class="written">${text}</code></p>`;
  return html`<p class="problems" role="alert">${text}</p>`;
}
