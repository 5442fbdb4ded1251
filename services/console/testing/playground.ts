import assert from "node:assert/strict";
import type { World } from "./console.ts";
import type { TestPerson } from "./people.ts";

/** Sends the form as static/playground.js does and tells the answer as soon as it begins. */
export function sendAsScript(
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

type Line = { question?: string; said?: string; problem?: string; figures?: string; code?: string } & {
  conversation?: string;
  isKept?: boolean;
};

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
    .replaceAll("&#38;", "&");
