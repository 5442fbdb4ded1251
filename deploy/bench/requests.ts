import { requestText, type LoadKind } from "./answers.ts";
import type { WireName } from "./wire.ts";

/** A dialect in which the relay may be called. */
export type ClientName = Exclude<WireName, "gemini-generate">;

/** What one call is. */
export type CallPlan = { kind: LoadKind; client: ClientName; model: string; bytes: number };

/** Where calls go, and with which headers of their own. */
export type Destination = { port: number; headers: Record<string, string> };

const paths: Record<ClientName, string> = {
  "openai-chat": "/v1/chat/completions",
  "anthropic-messages": "/v1/messages",
  "openai-responses": "/v1/responses",
};

/** What a stream of the client's dialect ends with. */
export const streamEnds: Record<ClientName, string> = {
  "openai-chat": "data: [DONE]\n\n",
  "anthropic-messages": "}\n\n",
  "openai-responses": "}\n\n",
};

/** The body of a call, `bytes` long; its text names the kind of answer wanted. */
export function requestBody({ kind, client, model, bytes }: CallPlan): string {
  const render = (text: string): string => {
    const isStream = kind !== "json";
    if (client === "openai-responses") return JSON.stringify({ model, input: text, stream: isStream });
    const messages = [{ role: "user", content: text }];
    if (client === "anthropic-messages") return JSON.stringify({ model, max_tokens: 256, messages, stream: isStream });
    const options = isStream ? { stream: true, stream_options: { include_usage: true } } : {};
    return JSON.stringify({ model, messages, ...options });
  };
  return render(requestText(kind, bytes - render("").length));
}

/** A whole HTTP/1.1 request, ready to be written; a secret replaces the one of the destination. */
export function renderRequest(plan: CallPlan, { port, headers }: Destination, secret?: string): Buffer {
  const body = requestBody(plan);
  const all = {
    host: `127.0.0.1:${port}`,
    "content-type": "application/json",
    ...(plan.client === "anthropic-messages" && { "anthropic-version": "2023-06-01" }),
    ...headers,
    ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
    "content-length": Buffer.byteLength(body),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST ${paths[plan.client]} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
}
