import { readText, type Form } from "../../html/form.ts";
import type { CatalogAddition } from "./catalog-edit.ts";

/** Formats that an upstream may be added with, and its models be called in. */
export const draftFormats = [
  ["openai-chat", "OpenAI chat completions"],
  ["openai-chat openai-responses", "OpenAI chat completions and responses"],
  ["anthropic-messages", "Anthropic messages"],
  ["gemini-generate", "Gemini generateContent"],
  ["openai-embeddings", "OpenAI embeddings"],
] as const;

/** How many models one form takes. */
export const draftModels = [1, 2, 3] as const;

/** Fields of prices: name in the form, name in the catalog, label. */
export const priceFields = [
  ["input", "input_tokens", "Input tokens"],
  ["cached", "cache_read_tokens", "Cache read tokens"],
  ["output", "output_tokens", "Output tokens"],
] as const;

const maxName = 100;
const maxModelName = 200;
const pricePattern = /^\d{1,9}(\.\d{1,9})?$/;
const variablePattern = /^[A-Za-z_][A-Za-z0-9_]{0,199}$/;
const urlPattern = /^https?:\/\/[^/?#\s@]+(\/[^?#\s]*)?$/;

/** The entries of a form, or undefined with what is wrong noted in it. `version` names the prices. */
export function readAdditions(form: Form, version: string): CatalogAddition[] | undefined {
  const name = readText(form, "name", { maxLength: maxName, what: "the name of the upstream" });
  const format = draftFormats.find(([value]) => value === form.typed("format"))?.[0];
  if (!format) form.refuse("format", "Choose one of the formats.");
  const baseUrl = readPattern(form, "base-url", urlPattern, "Give an address such as https://api.example.com.");
  const env = readPattern(form, "variable", variablePattern, "Give the name of a variable, such as EXAMPLE_API_KEY.");
  const ownedBy = readText(form, "owned-by", { maxLength: maxName, what: "who makes the models" });
  const numbers = draftModels.filter((number) => number === 1 || form.typed(`model-${number}`) !== "");
  const isText = format !== "openai-embeddings";
  const models = numbers.map((number) => readModel(form, { number, isText }));
  const names = models.map((model) => model.name);
  if (new Set(names).size < names.length) form.refuse("model-2", "Give each model a name of its own.");
  if (form.errors.size > 0 || name === undefined || baseUrl === undefined || format === undefined) return undefined;
  const dialects = format.split(" ");
  const upstream = { base_url: baseUrl, dialects, credential: { env } };
  const modelAdditions = models.map(({ name: model = "", there, cost, limits, prices }) => ({
    section: "models" as const,
    name: model,
    entry: {
      owned_by: ownedBy,
      upstreams: [{ name, ...(there !== "" && { model: there }), ...(cost && { cost }) }],
      ...(!isText && { dialects }),
      ...limits,
      price: { version, ...prices },
    },
  }));
  return [{ section: "upstreams", name, entry: upstream }, ...modelAdditions];
}

type ModelPlace = { number: number; isText: boolean };

function readModel(form: Form, { number, isText }: ModelPlace) {
  const name = readText(form, `model-${number}`, { maxLength: maxModelName, what: "the name of the model" });
  const there = form.typed(`there-${number}`);
  if (there !== "") readText(form, `there-${number}`, { maxLength: maxModelName, what: "the name of the model there" });
  const isPriceNeeded = (field: string): boolean => field === "input" || (field === "output" && isText);
  const prices = readPrices(form, number, { prefix: "", isNeeded: isPriceNeeded });
  // A cost that is left out counts as nothing, and the margin would be shown too high.
  const hasCost = priceFields.some(([field]) => form.typed(`cost-${field}-${number}`) !== "");
  const isCostNeeded = (field: string): boolean =>
    hasCost && (form.typed(`${field}-${number}`) !== "" || field === "input");
  const cost = readPrices(form, number, { prefix: "cost-", isNeeded: isCostNeeded });
  const limits = {
    ...readTokens(form, `context-${number}`, "context_tokens", isText),
    ...readTokens(form, `max-output-${number}`, "max_output_tokens", isText),
  };
  return { name, there, prices, limits, cost: hasCost ? cost : undefined };
}

type PriceRule = { prefix: string; isNeeded: (field: string) => boolean };

function readPrices(form: Form, number: number, { prefix, isNeeded }: PriceRule): Record<string, string> {
  const prices: Record<string, string> = {};
  for (const [field, bucket] of priceFields) {
    const name = `${prefix}${field}-${number}`;
    if (form.typed(name) === "" && !isNeeded(field)) continue;
    const price = readPattern(form, name, pricePattern, "Give USD per million such as 0.25, at most nine decimals.");
    if (price !== undefined) prices[bucket] = price;
  }
  return prices;
}

function readTokens(form: Form, name: string, field: string, isNeeded: boolean): Record<string, number> {
  if (form.typed(name) === "" && !isNeeded) return {};
  const text = readPattern(form, name, /^[1-9]\d{0,7}$/, "Give a whole number from 1 to 99,999,999.");
  return text === undefined ? {} : { [field]: Number(text) };
}

function readPattern(form: Form, name: string, pattern: RegExp, sentence: string): string | undefined {
  const text = form.typed(name);
  return text.length <= 2_000 && pattern.test(text) ? text : form.refuse(name, sentence);
}
