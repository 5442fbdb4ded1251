import { catalogNameOf } from "./schema.ts";
import { shortUsd } from "./prices.ts";
import { CatalogError } from "#shared/catalog/document.ts";
import { parseCatalog } from "./catalog.ts";
import type { Quirk } from "../dialects/conversation.ts";
import { member, upstreamDialectNames, type DialectName } from "../dialects/dialect.ts";
import { parseExact, readListEntry, type ListPrices } from "./price-list.ts";

/** What to take from the list; `models` as the list names them or without the provider, all where it is empty. */
export type Import = { provider: string; version: string; models: string[] };

/** A `models:` section for the catalog, and what kept models that were asked for out of it. */
export type Imported = { yaml: string; problems: string[] };

// The formats in which a model of a mode may be called; none is named for conversations.
const dialectsByMode: Record<string, DialectName | undefined> = {
  chat: undefined,
  responses: undefined,
  completion: "openai-completions",
  embedding: "openai-embeddings",
  image_generation: "openai-images",
  audio_speech: "openai-speech",
  audio_transcription: "openai-transcriptions",
  moderation: "openai-moderations",
};

// How the models of these providers count in the OpenAI-compatible format.
const quirksByProvider: Record<string, Quirk | undefined> = {
  gemini: "reasoning-in-total",
  vertex_ai: "reasoning-in-total",
  "vertex_ai-language-models": "reasoning-in-total",
};

// What YAML takes for a text as it stands.
const quoted = (text: string): string => (/^[A-Za-z][\w.-]*$/.test(text) ? text : JSON.stringify(text));

const isVariant = ({ serviceTier, aboveInputTokens }: ListPrices): boolean =>
  serviceTier !== undefined || aboveInputTokens !== undefined;

const weight = ({ serviceTier, aboveInputTokens = 0 }: ListPrices): number =>
  (serviceTier === undefined ? 0 : 1e9) + aboveInputTokens;

/**
 * Variants in the order in which the first that fits is the right one: a tier above a threshold, the tier, the
 * threshold. What a tier above a threshold does not name costs as in the tier, else as above the threshold.
 */
function variantsOf(groups: ListPrices[]): ListPrices[] {
  const pricesOf = (tier: string | undefined, above: number | undefined) =>
    groups.find(({ serviceTier, aboveInputTokens }) => serviceTier === tier && aboveInputTokens === above)?.prices ??
    [];
  return groups
    .filter(isVariant)
    .toSorted((one, other) => weight(other) - weight(one))
    .map((group) => {
      const { serviceTier: tier, aboveInputTokens: above, prices } = group;
      if (tier === undefined || above === undefined) return group;
      return { ...group, prices: new Map([...pricesOf(undefined, above), ...pricesOf(tier, undefined), ...prices]) };
    });
}

/** Pairs of a tier and a threshold of which the list does not say what both together cost. */
function unsaidPairs(groups: ListPrices[]): string[] {
  const isPair = (tier: string, above: number): boolean =>
    groups.some(({ serviceTier, aboveInputTokens }) => serviceTier === tier && aboveInputTokens === above);
  const tiers = [...new Set(groups.flatMap(({ serviceTier }) => serviceTier ?? []))];
  const thresholds = [...new Set(groups.flatMap(({ aboveInputTokens }) => aboveInputTokens ?? []))];
  return tiers.flatMap((tier) =>
    thresholds.filter((above) => !isPair(tier, above)).map((above) => `${tier} above ${above} input tokens`),
  );
}

function pricePairs({ prices }: ListPrices): string[] {
  return [...prices].map(([bucket, nanos]) => `${catalogNameOf(bucket)}: "${shortUsd(nanos)}"`);
}

function variantLine(variant: ListPrices): string {
  const { serviceTier, aboveInputTokens } = variant;
  const conditions = [
    ...(serviceTier === undefined ? [] : [`service_tier: ${serviceTier}`]),
    ...(aboveInputTokens === undefined ? [] : [`above_input_tokens: ${aboveInputTokens}`]),
  ];
  return `        - { ${[...conditions, ...pricePairs(variant)].join(", ")} }\n`;
}

/**
 * What a web search costs where the list does not say it, in nano-USD per 1,000,000: 10 USD per 1,000 at both
 * (developers.openai.com/api/docs/pricing, platform.claude.com/docs/en/about-claude/pricing, November 2026). Agents ask
 * for the tool by default, and are refused where it has no price.
 */
const knownSearchPrices: Record<string, bigint | undefined> = {
  openai: 10_000_000_000_000n,
  anthropic: 10_000_000_000_000n,
};

/** Adds the price of a search to a model that makes text and has none; true where it did. */
function addSearchPrice(groups: ListPrices[], mode: string, provider: string): boolean {
  const price = knownSearchPrices[provider];
  const base = groups.find((group) => !isVariant(group));
  const makesText = mode === "chat" || mode === "responses";
  if (price === undefined || !makesText || !base?.prices.has("outputTokens") || base.prices.has("webSearches"))
    return false;
  base.prices.set("webSearches", price);
  return true;
}

const integerOf = (...values: unknown[]): string | undefined =>
  values.find((value): value is string => typeof value === "string" && /^[1-9]\d{0,8}$/.test(value));

/** The lines of a model, without comments. */
function modelLines(id: string, source: object, groups: ListPrices[], { provider, version }: Import): string {
  const field = (name: string): unknown => member(source, name);
  const dialect = dialectsByMode[String(field("mode"))];
  const quirk = Object.hasOwn(quirksByProvider, provider) ? quirksByProvider[provider] : undefined;
  const context = integerOf(field("max_input_tokens"), field("max_tokens"));
  const output = integerOf(field("max_output_tokens"), field("max_tokens"));
  const base = groups.find((group) => !isVariant(group));
  const variants = variantsOf(groups);
  return [
    `  ${quoted(id)}:\n    owned_by: ${quoted(provider)}\n    upstreams: [{ name: ${quoted(provider)} }]\n`,
    dialect === undefined ? "" : `    dialects: [${dialect}]\n`,
    dialect === undefined && quirk !== undefined ? `    quirks: [${quirk}]\n` : "",
    context === undefined ? "" : `    context_tokens: ${context}\n`,
    output === undefined ? "" : `    max_output_tokens: ${output}\n`,
    `    price:\n      version: ${JSON.stringify(version)}\n`,
    ...(base ? pricePairs(base).map((pair) => `      ${pair}\n`) : []),
    variants.length === 0 ? "" : "      variants:\n",
    ...variants.map(variantLine),
  ].join("");
}

/** Why the catalog would not take these lines; empty when it would. */
function refusalOf(lines: string, provider: string): string {
  const upstream = `{ base_url: "http://localhost", dialects: [${upstreamDialectNames.join()}], credential: { env: KEY } }`;
  try {
    parseCatalog(`upstreams:\n  ${quoted(provider)}: ${upstream}\nmodels:\n${lines}`, "", { KEY: "key" });
    return "";
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    return error.message.replaceAll(/^:\d+: /gm, "").replaceAll("\n", "; ");
  }
}

const comment = (text: string): string => `  # ${text.replaceAll(/\s+/g, " ")}\n`;

type Rendered = { text: string; problems: string[] };

function renderModel(id: string, source: object, wanted: Import): Rendered {
  const mode = String(member(source, "mode"));
  const leaveOut = (reason: string): Rendered => ({ text: comment(`${quoted(id)} left out: ${reason}`), problems: [] });
  if (/\d+-x-\d+/.test(id)) return leaveOut("a size of another model; write it as a variant of that");
  if (!Object.hasOwn(dialectsByMode, mode)) return leaveOut(`there is no format for mode ${mode}`);
  const { prices, unsaid, zeros, problems } = readListEntry(source, mode);
  if (problems.length > 0)
    return { text: leaveOut(problems.join("; ")).text, problems: problems.map((problem) => `${id}: ${problem}`) };
  if (prices.length === 0 && zeros.length > 0) return leaveOut(`all its prices are 0 (${zeros.join(", ")})`);
  const isSearchKnown = addSearchPrice(prices, mode, wanted.provider);
  const lines = modelLines(id, source, prices, wanted);
  const refusal = refusalOf(lines, wanted.provider);
  const notes = [
    ...unsaid.map((field) => `not said in this catalog: ${field}`),
    ...zeros.map((key) => `left out, because it is 0: ${key}`),
    ...(isSearchKnown
      ? [`the list does not price web_searches; it is what ${wanted.provider} asks for a web search`]
      : []),
    ...unsaidPairs(prices).map((pair) => `the list does not say what ${pair} costs; the tier's prices hold`),
  ].map((note) => comment(`${quoted(id)} ${note}`));
  if (refusal !== "") return { text: [leaveOut(refusal).text, ...notes].join(""), problems: [] };
  return { text: [...notes, lines].join(""), problems: [] };
}

/** The provider's models of the list by the id that they get here. */
function modelsOf(list: object, provider: string): { id: string; name: string; source: object }[] {
  return Object.entries(list).flatMap(([name, source]: [string, unknown]) => {
    if (typeof source !== "object" || source === null || member(source, "litellm_provider") !== provider) return [];
    const prefix = `${provider}/`;
    return [{ id: name.startsWith(prefix) ? name.slice(prefix.length) : name, name, source }];
  });
}

/**
 * Turns models of the public price list (`model_prices_and_context_window.json`) into a section of the catalog. Prices
 * are exact or a problem; a field about money that the catalog has no words for, a price of 0 and a model that the
 * catalog would refuse are named in comments. Throws a SyntaxError where the text is no JSON.
 */
export function importPrices(text: string, wanted: Import): Imported {
  const { provider, version, models: names } = wanted;
  const list = parseExact(text);
  const offered = modelsOf(typeof list === "object" && list !== null ? list : {}, provider);
  const isWanted = ({ id, name }: { id: string; name: string }): boolean =>
    names.length === 0 || names.includes(id) || names.includes(name);
  const problems = names
    .filter((wantedName) => !offered.some(({ id, name }) => id === wantedName || name === wantedName))
    .map((name) => `${provider} has no model ${name} in the list`);
  if (offered.length === 0) problems.push(`the list has no models of the provider ${provider}`);
  const seen = new Set<string>();
  const sections = offered.filter(isWanted).map(({ id, name, source }) => {
    if (seen.has(id)) return comment(`${quoted(name)} left out: ${quoted(id)} is there already`);
    seen.add(id);
    const rendered = renderModel(id, source, wanted);
    problems.push(...rendered.problems);
    return rendered.text;
  });
  const head = `# Prices of ${provider}, version ${version}, of a public list: compare them with the provider's own.\n`;
  const isEmpty = sections.every((section) => /^(?: {2}#.*\n)*$/.test(section));
  return { yaml: `${head}models:${isEmpty ? " {}" : ""}\n${sections.join("")}`, problems };
}
