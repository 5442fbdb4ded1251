import { createHmac } from "node:crypto";
import { request } from "undici";
import { checkUrl, FetchRefusedError, guardedAgent, type FetchRules } from "#shared/net/guarded-agent.ts";

/** A secret as those who verify get it (Standard Webhooks): 32 bytes in base64 after a prefix. */
export const secretText = (secret: Buffer): string => `whsec_${secret.toString("base64")}`;

export type SignedMessage = { id: string; body: string; secrets: readonly Buffer[]; nowMs: number };

/** The headers of a message as Standard Webhooks has them: one signature for each secret, by spaces. */
function signedHeaders({ id, body, secrets, nowMs }: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const sign = (secret: Buffer): string =>
    `v1,${createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  return {
    "content-type": "application/json",
    "user-agent": "model-relay-webhooks",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": secrets.map(sign).join(" "),
  };
}

const timeoutMs = 10_000;

/** The status that a webhook answers with. Its answer is not read, and leads nowhere. Throws FetchRefusedError. */
export async function postMessage(text: string, message: SignedMessage, rules: FetchRules): Promise<number> {
  const url = checkUrl(text, undefined, rules);
  const dispatcher = guardedAgent(rules, timeoutMs);
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const headers = signedHeaders(message);
    const { statusCode, body } = await request(url, {
      method: "POST",
      headers,
      body: message.body,
      dispatcher,
      signal,
    });
    body.on("error", () => undefined).destroy();
    return statusCode;
  } catch (error) {
    if (error instanceof FetchRefusedError) throw error;
    throw new FetchRefusedError(signal.aborted ? `not within ${timeoutMs} ms` : "the connection failed", {
      cause: error,
    });
  } finally {
    await dispatcher.destroy();
  }
}
