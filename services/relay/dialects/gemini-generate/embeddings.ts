import { UnsupportedError } from "../conversation.ts";
import { countOf, emptyTally, estimateTokens, member, type Tally } from "../dialect.ts";
import { lostFields, type WrittenCall } from "./media-call.ts";
import { resourceName } from "./request.ts";

function textsOf(input: unknown): string[] {
  const texts: unknown[] = Array.isArray(input) ? input : [input];
  // Tokens are those of the model that the caller had in mind.
  if (texts.every((text) => typeof text === "string")) return texts;
  throw new UnsupportedError("field input must be text: this model cannot read tokens");
}

// The encoding of the answer is the relay's to make.
const carried = new Set(["model", "input", "encoding_format"]);

/**
 * Writes a Format A embeddings request as batchEmbedContents, which also takes a single text. Throws UnsupportedError
 * for an input in tokens.
 */
export function writeEmbeddings(request: Record<string, unknown>, model: string): WrittenCall {
  const { input, dimensions } = request;
  const name = resourceName(model);
  const outputDimensionality = typeof dimensions === "number" ? { outputDimensionality: dimensions } : {};
  const requests = textsOf(input).map((text) => ({
    model: name,
    content: { parts: [{ text }] },
    ...outputDimensionality,
  }));
  const dropped = lostFields(
    request,
    (field, value) => carried.has(field) || (field === "dimensions" && typeof value === "number"),
  );
  return { path: `/v1beta/${name}:batchEmbedContents`, body: { requests }, dropped };
}

const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "number");

/** Vectors of Format A have length 1; Gemini's have it only in their full size. */
function normalize(vector: readonly number[]): number[] {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? [...vector] : vector.map((value) => value / length);
}

const toldTokens = (answer: unknown): bigint => countOf(member(member(answer, "usageMetadata"), "promptTokenCount"));

const estimatedTokens = (input: unknown): number =>
  textsOf(input).reduce((sum, text) => sum + Math.ceil(estimateTokens(text)), 0);

/** Reads a whole answer: what the caller is told is what is charged, flagged where Gemini told nothing. */
export function readTally(answer: unknown, input: unknown): Tally | undefined {
  if (!Array.isArray(member(answer, "embeddings"))) return undefined;
  const tally = emptyTally();
  const inputTokens = toldTokens(answer);
  if (inputTokens > 0n) tally.usage = { inputTokens };
  else tally.counted = { inputTokens: BigInt(estimatedTokens(input)) };
  tally.hasContent = true;
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}

/**
 * Gemini's answer as the Format A list, in numbers. Its tokens are estimated where Gemini tells none. undefined when
 * the body is none, or has not as many vectors as texts were sent.
 */
export function readEmbeddings(
  answer: unknown,
  request: Record<string, unknown>,
  model: string,
): Record<string, unknown> | undefined {
  const embeddings = member(answer, "embeddings");
  if (!Array.isArray(embeddings) || embeddings.length !== textsOf(request["input"]).length) return undefined;
  const vectors = embeddings.map((embedding) => member(embedding, "values"));
  if (!vectors.every(isVector)) return undefined;
  const isCut = typeof request["dimensions"] === "number";
  const tokens = Number(toldTokens(answer)) || estimatedTokens(request["input"]);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: isCut ? normalize(vector) : vector,
    })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}
