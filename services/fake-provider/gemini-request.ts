import { type Fields, type GeminiEndpoint, isObject } from "./dialect.ts";
import { countWords, readPrompt } from "./prompt.ts";
import type { FakeRequest, Headers, Refusal } from "./request.ts";

const requestFields = [
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "safetySettings",
  "generationConfig",
  "cachedContent",
  "labels",
  "serviceTier",
  "store",
];

const generationFields = [
  "temperature",
  "topP",
  "topK",
  "candidateCount",
  "maxOutputTokens",
  "stopSequences",
  "responseLogprobs",
  "logprobs",
  "presencePenalty",
  "frequencyPenalty",
  "seed",
  "responseMimeType",
  "responseSchema",
  "responseJsonSchema",
  "responseModalities",
  "mediaResolution",
  "speechConfig",
  "thinkingConfig",
  "imageConfig",
];

const embeddingFields = ["model", "content", "taskType", "title", "outputDimensionality"];

/** Refuses what Gemini refuses: no key, no JSON, no turns, names it does not know, a call without its signature. */
export function findGeminiRefusal(
  headers: Headers,
  body: Fields | undefined,
  { model, isEmbedding }: GeminiEndpoint,
): Refusal | undefined {
  if (!headers["x-goog-api-key"]) {
    return { status: 403, message: "Method doesn't allow unregistered callers. Please use API Key." };
  }
  if (!body) return { status: 400, message: "Invalid JSON payload received." };
  if (isEmbedding) return findEmbeddingRefusal(body, model);
  const unknown =
    findUnknown(body, requestFields, "") ?? findUnknown(configOf(body), generationFields, " at 'generation_config'");
  if (unknown) return { status: 400, message: `Invalid JSON payload received. ${unknown}: Cannot find field.` };
  const contents = turnsOf(body);
  if (contents.length === 0) return { status: 400, message: "* GenerateContentRequest.contents: contents is required" };
  if (contents.some(({ role = "user" }) => role !== "user" && role !== "model")) {
    return { status: 400, message: "Please use a valid role: user, model." };
  }
  if (needsSignatures(model) && hasUnsignedCall(contents)) {
    return { status: 400, message: "Function call is missing a thought_signature in functionCall parts." };
  }
  return undefined;
}

function findEmbeddingRefusal(body: Fields, model: string): Refusal | undefined {
  const requests = embeddingsOf(body);
  if (requests.length === 0) return { status: 400, message: "* BatchEmbedContentsRequest.requests: is required" };
  const unknown =
    findUnknown(body, ["requests"], "") ?? requests.map((one) => findUnknown(one, embeddingFields, "")).find(Boolean);
  if (unknown) return { status: 400, message: `Invalid JSON payload received. ${unknown}: Cannot find field.` };
  if (requests.every((one) => one["model"] === `models/${model}`)) return undefined;
  return {
    status: 400,
    message: "* BatchEmbedContentsRequest.requests[0].model: does not match the model of the path",
  };
}

/** The requests of a batch of embeddings. */
export function embeddingsOf(body: Fields): Fields[] {
  return Array.isArray(body["requests"]) ? body["requests"].filter(isObject) : [];
}

/** Whether a model insists on the signatures of its calls, and numbers the calls. */
export function needsSignatures(model: string): boolean {
  return model.startsWith("gemini-3");
}

/** Reads what matters from a request whose path named the model and the kind of answer. */
export function readGeminiRequest({ model, isStream, isEmbedding }: GeminiEndpoint, body: Fields): FakeRequest {
  const prompt = isEmbedding ? { contents: embeddingsOf(body).map(({ content }) => content) } : body;
  const { texts, lastUserText } = readPrompt("gemini", prompt);
  const { maxOutputTokens, candidateCount } = configOf(body);
  return {
    dialect: "gemini",
    model,
    isStream,
    includesUsage: true,
    choices: typeof candidateCount === "number" ? candidateCount : 1,
    outputCap: typeof maxOutputTokens === "number" ? maxOutputTokens : Number.POSITIVE_INFINITY,
    promptTokens: texts.reduce((sum, text) => sum + countWords(text), 0),
    lastUserText,
    fields: body,
  };
}

/** The settings of what is to be made. */
export function configOf(body: Fields): Fields {
  const config = body["generationConfig"] ?? body["generation_config"];
  return isObject(config) ? config : {};
}

type Turn = { role?: unknown; parts: Fields[] };

function turnsOf(body: Fields): Turn[] {
  const contents = Array.isArray(body["contents"]) ? body["contents"].filter(isObject) : [];
  return contents.map(({ role, parts }) => ({ role, parts: Array.isArray(parts) ? parts.filter(isObject) : [] }));
}

// Names may be written in snake case, too.
function findUnknown(fields: Fields, known: string[], place: string): string | undefined {
  const camelCase = (name: string): string => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const unknown = Object.keys(fields).find((name) => !known.includes(camelCase(name)));
  return unknown === undefined ? undefined : `Unknown name "${unknown}"${place}`;
}

// Only calls since the user last said something count, and of parallel ones only the first.
function hasUnsignedCall(turns: Turn[]): boolean {
  const isSaid = ({ role = "user", parts }: Turn): boolean => role === "user" && parts.some(({ text }) => text);
  const current = turns.slice(turns.findLastIndex(isSaid) + 1);
  const firstCalls = current.map(({ parts }) => parts.find(({ functionCall }) => functionCall));
  return firstCalls.some((call) => call && !call["thoughtSignature"] && !call["thought_signature"]);
}
