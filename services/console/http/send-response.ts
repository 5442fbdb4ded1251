import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { html, render, type Markup } from "../html/html.ts";
import { layout, type Frame, type NamedAccount } from "../html/layout.ts";
import type { Deps } from "../deps.ts";
import { findAccounts } from "../directory.ts";
import { problemOf, problems } from "../html/problem.ts";
import type { PageResponse, PageRequest, AccountRequest, Visitor } from "../html/route.ts";
import { reachable } from "../store/availability.ts";
import { listMemberships } from "../store/memberships.ts";
import { setFlash } from "../store/sessions.ts";
import type { Cookies } from "./visitor.ts";

/** What every page response needs. */
export type Site = { deps: Deps; cookies: Cookies };

type Exchange = { reply: FastifyReply; pageRequest: PageRequest; response: PageResponse };

/** Sends the response of a route. */
export async function send(site: Site, { reply, pageRequest, response }: Exchange): Promise<FastifyReply> {
  const { cookies, deps } = site;
  void reply.header("cache-control", "no-store");
  if (response.sessionToken !== undefined)
    void reply.setCookie(cookies.sessionName, response.sessionToken, cookies.options);
  if (response.clearCookie) void reply.clearCookie(cookies.sessionName, cookies.options);
  const session = pageRequest.visitor?.session;
  if (response.kind === "redirect") {
    if (response.flash !== undefined && session)
      await reachable(setFlash(deps.pool, session.sessionId, response.flash));
    return reply.redirect(response.to, 303);
  }
  if (response.kind === "fragment") return reply.type("text/html; charset=utf-8").send(render(response.body));
  if (response.kind === "lines") {
    void reply.code(response.status ?? 200).type("application/x-ndjson");
    return reply.send(flowing(deps, reply, asText(response.lines)));
  }
  if (response.kind === "file") {
    return reply
      .type(response.type)
      .header("content-disposition", `attachment; filename="${response.name}"`)
      .send(Readable.from(response.pieces));
  }
  const frame = await frameOf(site, pageRequest, response);
  if (response.kind === "page" && response.goesOnTo) void reply.header("refresh", `0; url=${response.goesOnTo.href}`);
  if (response.kind === "page") return sendPage(reply, { status: response.status ?? 200, frame });
  const { before, after } = around(layout(frame), response.body);
  const whole = inOrder(before, response.pieces, after);
  return reply.type("text/html; charset=utf-8").send(flowing(deps, reply, whole));
}

/** Streams pieces as they arrive. When one fails, the connection is closed, as the response is incomplete. */
function flowing({ log }: Deps, reply: FastifyReply, pieces: AsyncIterable<string>): Readable {
  const path = reply.request.routeOptions.url;
  // Proxies that gather answers before they pass them on ask for this header: nginx, ngx_http_proxy_module.
  void reply.header("x-accel-buffering", "no");
  return Readable.from(pieces).on("error", (error) => {
    if (!reply.raw.destroyed) log.error({ err: error, path }, "response aborted");
  });
}

type Content = { title: string; body: Markup; actions?: Markup | undefined };

async function frameOf({ deps }: Site, pageRequest: PageRequest, { title, body, actions }: Content): Promise<Frame> {
  const session = pageRequest.visitor?.session;
  const flash = session?.flash ?? undefined;
  if (session && flash !== undefined) await reachable(setFlash(deps.pool, session.sessionId, null));
  const { accountId, roles } = pageRequest as Partial<AccountRequest>;
  const { visitor, path, csrfField } = pageRequest;
  const accounts = visitor?.session.isComplete ? await accountsToShow(deps, visitor, accountId) : [];
  const { errors } = pageRequest.form;
  return { title, body, actions, flash, visitor, accountId, accounts, roles, path, csrfField, errors };
}

const maxSwitched = 8;

/** The first accounts of a person, and that of the page; by their ids when auth-quota does not answer. */
async function accountsToShow(deps: Deps, { person }: Visitor, accountId = ""): Promise<NamedAccount[]> {
  const page = { afterId: "", limit: maxSwitched };
  const own = await reachable(listMemberships(deps.pool, person.personId, page));
  const ids = new Set([...own.map((membership) => membership.accountId), accountId].filter((id) => id !== ""));
  const names = await findAccounts(deps, [...ids]).catch(() => undefined);
  return [...ids].map((id) => ({ accountId: id, name: names?.get(id)?.name || id }));
}

/** The page up to the end of its body, and what comes after it. */
function around(page: Markup, body: Markup): { before: string; after: string } {
  const text = render(page);
  const end = text.indexOf(render(body)) + render(body).length;
  return { before: text.slice(0, end), after: text.slice(end) };
}

async function* inOrder(before: string, pieces: AsyncIterable<Markup>, after: string): AsyncGenerator<string> {
  yield before;
  for await (const piece of pieces) yield render(piece);
  yield after;
}

async function* asText(lines: AsyncIterable<object>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}

type Page = { status: number; frame: Frame };

function sendPage(reply: FastifyReply, { status, frame }: Page): FastifyReply {
  return reply
    .code(status)
    .header("cache-control", "no-store")
    .type("text/html; charset=utf-8")
    .send(render(layout(frame)));
}

/** Sends the page for an error; the cause is logged when it is ours. */
export function sendProblem(site: Site, reply: FastifyReply, thrown: unknown): FastifyReply {
  const name = problemOf(thrown);
  const { status, title, text } = problems[name];
  if (status >= 500) site.deps.log.error({ err: thrown, path: reply.request.routeOptions.url }, "request failed");
  const body = html`<p>${text}</p>
    <p><a href="/">To the start page</a></p>`;
  if (status === 503 || status === 429) void reply.header("retry-after", "60");
  return sendPage(reply, { status, frame: { title, body } });
}
