import type { FastifyReply, FastifyRequest } from "fastify";
import type { Pool } from "#shared/stores/postgres.ts";
import type { Visitor } from "../html/route.ts";
import { createToken, hashToken } from "../credentials/secrets.ts";
import { findSession, rotateSession } from "../store/sessions.ts";

/** The cookies of the console. Over HTTPS `__Host-` makes browsers refuse them from any other host or path. */
export type Cookies = {
  sessionName: string;
  csrfName: string;
  options: { path: "/"; httpOnly: true; sameSite: "lax"; secure: boolean };
};

export function cookiesFor(publicUrl: URL): Cookies {
  const isSecure = publicUrl.protocol === "https:";
  const prefix = isSecure ? "__Host-" : "";
  return {
    sessionName: `${prefix}session`,
    csrfName: `${prefix}csrf`,
    options: { path: "/", httpOnly: true, sameSite: "lax", secure: isSecure },
  };
}

const tokenPattern = /^[\w-]{43}$/;

/** Who asks; a session whose rights somebody has changed gets its new token here. */
export async function findVisitor(
  pool: Pool,
  cookies: Cookies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Visitor | undefined> {
  const token = request.cookies[cookies.sessionName] ?? "";
  if (!tokenPattern.test(token)) return undefined;
  const tokenHash = hashToken(token);
  // Live parts of a page that somebody left open ask by themselves, which must not keep the session from ending.
  const isUse = request.headers["hx-request"] !== "true";
  const found = await findSession(pool, tokenHash, isUse);
  if (!found) return undefined;
  if (!found.session.mustRotate) return { ...found, tokenHash };
  const next = createToken();
  const isMine = await rotateSession(pool, found.session.sessionId, tokenHash, hashToken(next));
  // Another request of the same browser was first, and brings it the new cookie.
  if (!isMine) return undefined;
  void reply.setCookie(cookies.sessionName, next, cookies.options);
  return { ...found, tokenHash: hashToken(next) };
}
