import assert from "node:assert/strict";
import { test } from "node:test";
import type { Quirk } from "../conversation.ts";
import { clients, providers } from "../conversions.ts";
import type { UpstreamDialectName } from "../dialect.ts";

const settings = {
  metadata: { team: "a" },
  prompt_cache_key: "k",
  prompt_cache_options: { mode: "explicit", ttl: "30m" },
  prompt_cache_retention: "24h",
  service_tier: "flex",
};
const requests = {
  "openai-chat": { messages: [{ role: "user", content: "hi" }], ...settings },
  "openai-responses": { input: "hi", ...settings },
} as const;

function convert(from: keyof typeof requests, to: UpstreamDialectName, quirks: Quirk[] = []) {
  const [client, provider] = [clients[from], providers[to]];
  assert.ok(client && provider);
  const { conversation, dropped } = client.readRequest(requests[from]);
  const target = { model: "m", maxOutputTokens: 1_000, quirks: new Set(quirks) };
  const { body, losses } = provider.writeRequest(conversation, target);
  return { body, dropped: [...dropped, ...[...losses].map((loss) => client.lossNames[loss])].toSorted() };
}

test("what chat and responses have in common goes from one to the other as it came", () => {
  for (const [from, to] of [
    ["openai-chat", "openai-responses"],
    ["openai-responses", "openai-chat"],
  ] as const) {
    const { body, dropped } = convert(from, to);
    assert.partialDeepStrictEqual(body, settings);
    assert.deepEqual(dropped, []);
  }
});

test("to whom these settings say nothing they are not sent, and the caller is told", () => {
  const names = Object.keys(settings).toSorted();
  const cases = [
    convert("openai-responses", "openai-chat", ["no-custom-tools"]),
    convert("openai-chat", "anthropic-messages"),
    convert("openai-chat", "gemini-generate"),
  ];
  for (const { body, dropped } of cases) {
    assert.deepEqual(dropped, names);
    assert.ok(!names.some((name) => Object.hasOwn(body, name)), "none is sent");
  }
});
