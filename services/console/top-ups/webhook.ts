import type { FastifyInstance } from "fastify";
import type { Deps } from "../deps.ts";
import { problemOf, problems } from "../html/problem.ts";
import { reachable } from "../store/availability.ts";
import { BadSignature } from "../payments/provider.ts";
import { handleNotice } from "./settle.ts";

// Stripe's events are a few KiB; a session with all its fields stays far below.
const bodyBytes = 262_144;

/**
 * Where payment providers tell what became of a payment. It has no session and no CSRF token, and reads neither: who
 * has signed the body is all that counts. 200: done with; 400: not the provider's; 503: it is to be told again.
 */
export async function addWebhook(app: FastifyInstance, deps: Deps): Promise<void> {
  const { payments, log, metrics } = deps;
  if (!payments) return;
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const raw = { parseAs: "buffer", bodyLimit: bodyBytes } as const;
    scope.addContentTypeParser("application/json", raw, async (_request: unknown, body: Buffer) => body);
    scope.setErrorHandler(async (error, request, reply) => {
      if (error instanceof BadSignature) {
        metrics.topUps.inc({ provider: payments.name, outcome: "bad_signature" });
        log.warn({ address: request.ip }, "webhook message without a valid signature");
        return reply.code(400).type("text/plain").send("The signature is missing, wrong or too old.\n");
      }
      const { status } = problems[problemOf(error)];
      if (status < 500) return reply.code(status).type("text/plain").send("This is no message for here.\n");
      log.error({ err: error }, "failed to handle a payment message; the provider will resend it");
      return reply.code(503).type("text/plain").send("Not now. Tell it again.\n");
    });
    scope.post(`/payments/${payments.name}/webhook`, { bodyLimit: bodyBytes }, async ({ body, headers, ip }, reply) => {
      const signature = headers[`${payments.name}-signature`];
      if (!Buffer.isBuffer(body) || typeof signature !== "string") throw new BadSignature();
      const notice = payments.readWebhook(body, signature);
      if (notice) await reachable(handleNotice({ ...deps, payments }, notice, ip));
      return reply.type("text/plain").send("Thank you.\n");
    });
  });
}
