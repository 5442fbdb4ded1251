import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { UnsupportedError, type Target } from "../dialects/conversation.ts";
import { clients, providers } from "../dialects/conversions.ts";
import type { ClientConversion, ProviderConversion } from "../dialects/conversion.ts";
import type { DialectName, UpstreamDialectName } from "../dialects/dialect.ts";
import { readType } from "./declared-types.ts";
import { requestPairs, type FieldPair } from "./request-fields.ts";

// What becomes of each field of a request in each format of providers, by the types of the official clients.

type Body = Record<string, unknown>;

type Caller = {
  /** Where its client declares the request; what it is in a beta adds its fields to those before. */
  types: readonly { file: string; type: string }[];
  /** A request that says nothing but that. */
  base: Body;
  /** The list in which what is said stands, and what must stand before a result of a tool. */
  turns: string;
  before: unknown[];
};

const look = { type: "object", properties: {} };
const calls = ["call_1", "call_2"];

export const callers = {
  "openai-chat": {
    types: [{ file: "openai/resources/chat/completions/completions.d.ts", type: "ChatCompletionCreateParamsBase" }],
    base: {
      model: "m",
      messages: [{ role: "user", content: "hi" }],
      tools: [{ type: "function", function: { name: "look", parameters: look } }],
    },
    turns: "messages",
    before: [
      { role: "user", content: "hi" },
      {
        role: "assistant",
        tool_calls: calls.map((id) => ({ id, type: "function", function: { name: "look", arguments: "{}" } })),
      },
    ],
  },
  "openai-responses": {
    types: [
      { file: "openai/resources/responses/responses.d.ts", type: "ResponseCreateParamsBase" },
      { file: "openai/resources/beta/responses/responses.d.ts", type: "ResponseCreateParamsBase" },
    ],
    base: { model: "m", input: "hi", tools: [{ type: "function", name: "look", parameters: look }] },
    turns: "input",
    before: [
      { role: "user", content: "hi" },
      ...calls.map((call_id) => ({ type: "function_call", call_id, name: "look", arguments: "{}" })),
    ],
  },
  "anthropic-messages": {
    types: [
      { file: "@anthropic-ai/sdk/resources/messages/messages.d.ts", type: "MessageCreateParamsBase" },
      { file: "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts", type: "MessageCreateParamsBase" },
    ],
    base: {
      model: "m",
      max_tokens: 9_000,
      messages: [{ role: "user", content: "hi" }],
      tools: [{ name: "look", input_schema: look }],
    },
    turns: "messages",
    before: [
      { role: "user", content: "hi" },
      { role: "assistant", content: calls.map((id) => ({ type: "tool_use", id, name: "look", input: {} })) },
    ],
  },
} as const satisfies Partial<Record<DialectName, Caller>>;

type CallerName = keyof typeof callers;

type Outcome = { refused: string } | { body: unknown; dropped: string[] };

function convert(request: Body, client: ClientConversion, provider: ProviderConversion, target: Target): Outcome {
  try {
    const { conversation, dropped } = client.readRequest(request);
    const { body, losses } = provider.writeRequest(conversation, target);
    const names = [...dropped, ...[...losses].map((loss) => client.lossNames[loss])];
    return { body: JSON.parse(JSON.stringify(body)) as unknown, dropped: [...new Set(names)] };
  } catch (error) {
    if (error instanceof UnsupportedError) return { refused: error.message };
    throw error;
  }
}

const isObject = (value: unknown): value is Body => typeof value === "object" && value !== null;

/** Where two values begin to differ. */
function differenceOf(one: unknown, other: unknown, path: string[] = []): string {
  if (!isObject(one) || !isObject(other)) return path.join(".");
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
  const name = names.find((key) => !isDeepStrictEqual(one[key], other[key]));
  return name === undefined ? path.join(".") : differenceOf(one[name], other[name], [...path, name]);
}

/** `→ place` in the provider's request, `dropped name`, `400 message`, or `silent`. */
export type Verdict = string;

function verdictOf(given: Outcome, without: Outcome): Verdict {
  if ("refused" in given) return `400 ${given.refused}`;
  if ("refused" in without) return "→ (needed)";
  const named = given.dropped.filter((name) => !without.dropped.includes(name));
  if (named.length > 0) return `dropped ${named.join(", ")}`;
  if (!isDeepStrictEqual(given.body, without.body)) return `→ ${differenceOf(without.body, given.body)}`;
  return given.dropped.length > 0 ? `dropped with ${given.dropped.join(", ")}` : "silent";
}

function judge(name: CallerName, provider: UpstreamDialectName, pair: FieldPair): Verdict {
  const { base, turns, before }: Caller = callers[name];
  const [client, written] = [clients[name], providers[provider]];
  if (!client || !written) throw new Error(`${name} cannot reach ${provider}`);
  const target = { model: "m", maxOutputTokens: 32_000, quirks: new Set<never>(), takesOutputFormat: true };
  const [given, without] = [pair.with, pair.without].map((value) => {
    const body = value as Body;
    const said = body[turns];
    const isOwn = Array.isArray(said) && !isDeepStrictEqual(said, base[turns]);
    return convert(isOwn ? { ...body, [turns]: [...before, ...(said as unknown[])] } : body, client, written, target);
  }) as [Outcome, Outcome];
  return verdictOf(given, without);
}

const modules = join(import.meta.dirname, "../../../node_modules");

/** Every field of a caller's format, those of betas behind the others. */
function pairsOf({ types, base }: Caller): FieldPair[] {
  const found = new Map<string, FieldPair[]>();
  for (const { file, type } of types) {
    const [root] = readType(join(modules, file), type).objects;
    if (!root) throw new Error(`${type} has no fields`);
    const more = Map.groupBy(requestPairs(root, base), ({ path }) => path);
    for (const [path, pairs] of more) if (!found.has(path)) found.set(path, pairs);
  }
  return [...found.values()].flat();
}

/** What becomes of each field of a caller's format, by its path, at each provider of another one. */
export function fieldVerdicts(name: CallerName): { path: string; provider: string; verdict: Verdict }[] {
  const others = (Object.keys(providers) as UpstreamDialectName[]).filter((provider) => provider !== name);
  return pairsOf(callers[name]).flatMap((pair) =>
    others.map((provider) => ({ path: pair.path, provider, verdict: judge(name, provider, pair) })),
  );
}

const isLost = (verdict: Verdict): boolean => verdict.startsWith("400") || verdict.startsWith("dropped");

/**
 * The verdicts as text, a field to a line, by its providers. What lies within a field that no provider takes is left
 * out: it shares its fate.
 */
export function renderVerdicts(verdicts: ReturnType<typeof fieldVerdicts>): string {
  const byPath = new Map<string, Map<string, Verdict>>();
  for (const { path, provider, verdict } of verdicts) {
    const known = byPath.get(path) ?? new Map<string, Verdict>();
    byPath.set(path, known.set(provider, known.get(provider) ?? verdict));
  }
  const lines: string[] = [];
  let refused = "";
  for (const [path, verdictsOf] of byPath) {
    if (refused !== "" && path.startsWith(refused)) continue;
    const all = [...verdictsOf.values()];
    refused = all.every(isLost) && /[)\]]$/.test(path) ? path : "";
    const told = new Map<Verdict, string[]>();
    for (const [provider, verdict] of verdictsOf) told.set(verdict, [...(told.get(verdict) ?? []), provider]);
    lines.push(path, ...[...told].map(([verdict, at]) => `  ${at.join(", ")}: ${verdict}`));
  }
  return `${lines.join("\n")}\n`;
}
