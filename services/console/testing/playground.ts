import assert from "node:assert/strict";
import type { Fields } from "./browser.ts";
import { startWorld, type World } from "./console.ts";
import { chatEnd, chatEvent, startFakeApi } from "./fake-api.ts";
import { join, setUp, type TestPerson } from "./people.ts";

export const playgroundPath = "/accounts/acme/playground";
export const usualQuestion = { model: "chat-large", message: "Hi", system: "", "max-tokens": "" };

/** A member of an account in the playground of a console, whose API answers as a test says. */
export async function startPlayground() {
  await using resources = new AsyncDisposableStack();
  const api = resources.use(await startFakeApi());
  const world = resources.use(await startWorld({ API_URL: api.url }));
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  const member = await join(world, operator.browser, "acme", "developer");
  await member.browser.get(playgroundPath);
  const owned = resources.move();
  return {
    api,
    world,
    operator,
    member,
    /** The secret of the newest key that the console has made. */
    secretNow: (): string => `secret-of-${[...world.neighbours.keys.keys()].at(-1) ?? "nothing"}`,
    /** Has the API say "Hello", and forgets what came to it. */
    reset: (): void => {
      api.received.length = 0;
      api.answer = (response) => response.end(chatEvent("Hello") + chatEnd);
    },
    post: (fields: Fields = {}) => member.browser.post(playgroundPath, { ...usualQuestion, ...fields }),
    stream: (fields: Record<string, string> = {}, signal?: AbortSignal, person = member) =>
      sendAsScript({ world, person, path: playgroundPath }, { ...usualQuestion, ...fields }, signal),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export type Playground = Awaited<ReturnType<typeof startPlayground>>;

/** Sends the form as static/playground.js does and tells the answer as soon as it begins. */
function sendAsScript(
  { world, person, path }: { world: World; person: TestPerson; path: string },
  fields: Record<string, string>,
  signal?: AbortSignal,
): Promise<Response> {
  const { browser } = person;
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const headers = { cookie, "x-forwarded-proto": "https", "x-forwarded-for": browser.address };
  const body = new URLSearchParams({ csrf: browser.csrf(), as: "lines", ...fields });
  const init = { method: "POST", body, headers, ...(signal && { signal }) };
  return fetch(`http://127.0.0.1:${world.app.httpPort}${path}`, init);
}

type LineText = "question" | "said" | "call" | "problem" | "figures" | "note" | "code" | "conversation";
type Line = { [name in LineText]?: string } & { side?: number; isKept?: boolean };

/** The lines of an answer, once it has ended. */
export const linesOf = async (response: Response): Promise<Line[]> =>
  (await response.text())
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);

/** What the model said, and problems in brackets. */
export const saidIn = (lines: readonly Line[]): string =>
  lines.map(({ said, problem }) => said ?? (problem === undefined ? "" : `[${problem}]`)).join("");

export const saidBy = async (response: Response): Promise<string> => saidIn(await linesOf(response));

/** What the form of a page sends of the conversation before. */
export const conversationIn = (text: string): string =>
  (/name="conversation"[^>]* value="([^"]*)"/.exec(text)?.[1] ?? assert.fail("no field"))
    .replaceAll("&#34;", '"')
    .replaceAll("&#60;", "<")
    .replaceAll("&#62;", ">")
    .replaceAll("&#61;", "=")
    .replaceAll("&#38;", "&");
