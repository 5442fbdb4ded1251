import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import type { Assets } from "../html/assets.ts";
import { html, render, type Markup } from "../html/html.ts";
import { layout, type Frame } from "../html/layout.ts";
import type { Parts } from "../parts.ts";
import { problemOf, problems } from "../html/problem.ts";
import type { Answer, Asked, InAccount } from "../html/route.ts";
import { reachable } from "../store/availability.ts";
import { setFlash } from "../store/sessions.ts";
import type { Cookies } from "./visitor.ts";

/** What every answer of the pages needs. */
export type Site = { parts: Parts; cookies: Cookies; assets: Assets };

type Sending = { reply: FastifyReply; asked: Asked; answer: Answer };

/** Sends what a route has answered. */
export async function send(site: Site, { reply, asked, answer }: Sending): Promise<FastifyReply> {
  const { cookies, parts } = site;
  void reply.header("cache-control", "no-store");
  if (answer.sessionToken !== undefined)
    void reply.setCookie(cookies.sessionName, answer.sessionToken, cookies.options);
  if (answer.clearCookie) void reply.clearCookie(cookies.sessionName, cookies.options);
  const session = asked.visitor?.session;
  if (answer.kind === "redirect") {
    if (answer.flash !== undefined && session) await reachable(setFlash(parts.pool, session.sessionId, answer.flash));
    return reply.redirect(answer.to, 303);
  }
  if (answer.kind === "fragment") return reply.type("text/html; charset=utf-8").send(render(answer.body));
  if (answer.kind === "text") {
    if (answer.requestId !== undefined) void reply.header("x-request-id", answer.requestId);
    void reply.code(answer.status ?? 200).type("text/plain; charset=utf-8");
    return reply.send(flowing(parts, reply, answer.pieces));
  }
  if (answer.kind === "file") {
    return reply
      .type(answer.type)
      .header("content-disposition", `attachment; filename="${answer.name}"`)
      .send(Readable.from(answer.pieces));
  }
  const frame = await frameOf(site, asked, answer);
  if (answer.kind === "page" && answer.goesOnTo) void reply.header("refresh", `0; url=${answer.goesOnTo.href}`);
  if (answer.kind === "page") return sendPage(site, reply, { status: answer.status ?? 200, frame });
  const { before, after } = around(layout({ ...frame, assets: site.assets }), answer.body);
  const whole = inOrder(before, answer.pieces, after);
  return reply.type("text/html; charset=utf-8").send(flowing(parts, reply, whole));
}

/** What comes over time, each piece sent as it comes. When one fails the connection ends, for it is not whole. */
function flowing({ log }: Parts, reply: FastifyReply, pieces: AsyncIterable<string>): Readable {
  const path = reply.request.routeOptions.url;
  // Proxies that gather answers before they pass them on ask for this header: nginx, ngx_http_proxy_module.
  void reply.header("x-accel-buffering", "no");
  return Readable.from(pieces).on("error", (error) => {
    if (!reply.raw.destroyed) log.error({ err: error, path }, "an answer broke off");
  });
}

async function frameOf({ parts }: Site, asked: Asked, { title, body }: { title: string; body: Markup }) {
  const session = asked.visitor?.session;
  const flash = session?.flash ?? undefined;
  if (session && flash !== undefined) await reachable(setFlash(parts.pool, session.sessionId, null));
  const { accountId, roles } = asked as Partial<InAccount>;
  const { visitor, path, csrfField } = asked;
  return { title, body, flash, visitor, accountId, roles, path, csrfField, errors: asked.form.errors };
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

type Page = { status: number; frame: Omit<Frame, "assets"> };

function sendPage({ assets }: Site, reply: FastifyReply, { status, frame }: Page): FastifyReply {
  return reply
    .code(status)
    .header("cache-control", "no-store")
    .type("text/html; charset=utf-8")
    .send(render(layout({ ...frame, assets })));
}

/** The page for anything thrown; the cause goes to the log where it is ours. */
export function sendProblem(site: Site, reply: FastifyReply, thrown: unknown): FastifyReply {
  const name = problemOf(thrown);
  const { status, title, text } = problems[name];
  if (status >= 500) site.parts.log.error({ err: thrown, path: reply.request.routeOptions.url }, "request failed");
  const body = html`<p>${text}</p>
    <p><a href="/">To the start page</a></p>`;
  if (status === 503 || status === 429) void reply.header("retry-after", "60");
  return sendPage(site, reply, { status, frame: { title, body } });
}
