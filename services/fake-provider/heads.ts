import { randomUUID } from "node:crypto";
import type { FakeDialect } from "./dialect.ts";

// Headers that a provider's edge adds and that no relay may pass on.
const edgeHeaders = {
  "set-cookie": "__cf_bm=fake; path=/; HttpOnly",
  "cf-ray": "9a1b2c3d4e5f6789-FRA",
  server: "cloudflare",
};

const modelsCreatedAt = "2026-01-15T00:00:00Z";

/** Headers that the real provider sends with every answer. */
export function providerHeaders(dialect: FakeDialect, requestId: string): Record<string, string> {
  if (dialect === "messages") {
    const resetAt = new Date(Date.now() + 60_000).toISOString();
    return {
      "request-id": requestId,
      "anthropic-organization-id": randomUUID(),
      "anthropic-ratelimit-requests-limit": "4000",
      "anthropic-ratelimit-requests-remaining": "3999",
      "anthropic-ratelimit-requests-reset": resetAt,
      ...edgeHeaders,
    };
  }
  if (dialect === "gemini")
    return { "server-timing": "gfet4t7; dur=12", vary: "Origin", server: "scaffolding on HTTPServer2" };
  return {
    "x-request-id": requestId,
    "openai-organization": "org-fake",
    "openai-processing-ms": "12",
    "openai-version": "2020-10-01",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-reset-requests": "6ms",
    ...edgeHeaders,
  };
}

/** The model list in the shape of a dialect. */
export function renderModels(dialect: FakeDialect, models: string[]): string {
  if (dialect !== "messages") {
    const created = Date.parse(modelsCreatedAt) / 1000;
    const data = models.map((id) => ({ id, object: "model", created, owned_by: "system" }));
    return `${JSON.stringify({ object: "list", data }, null, 2)}\n`;
  }
  const data = models.map((id) => ({ type: "model", id, display_name: id, created_at: modelsCreatedAt }));
  return JSON.stringify({ data, has_more: false, first_id: models[0] ?? null, last_id: models.at(-1) ?? null });
}
