import { UnsayableError } from "../conversation.ts";
import { estimateTokens, member } from "../dialect.ts";
import { resourceName } from "./request.ts";

/** A request of another kind than a conversation, and the caller's fields that it could not carry. */
export type WrittenCall = { path: string; body: Record<string, unknown>; dropped: Set<string> };

function textsOf(input: unknown): string[] {
  const texts: unknown[] = Array.isArray(input) ? input : [input];
  // Tokens are those of the model that the caller had in mind.
  if (texts.every((text) => typeof text === "string")) return texts;
  throw new UnsayableError("field input must be text: this model cannot read tokens");
}

/**
 * Writes a Format A embeddings request as batchEmbedContents, which also takes a single text. Throws UnsayableError
 * for an input in tokens. The encoding of the answer is not Gemini's matter (openai-embeddings' rewriteReply).
 */
export function writeEmbeddings(request: Record<string, unknown>, model: string): WrittenCall {
  const { input, dimensions, user } = request;
  const name = resourceName(model);
  const outputDimensionality = typeof dimensions === "number" ? { outputDimensionality: dimensions } : {};
  const requests = textsOf(input).map((text) => ({
    model: name,
    content: { parts: [{ text }] },
    ...outputDimensionality,
  }));
  const dropped = new Set(user === undefined || user === null ? [] : ["user"]);
  return { path: `/v1beta/${name}:batchEmbedContents`, body: { requests }, dropped };
}

const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "number");

/** Vectors of Format A have length 1; Gemini's have it only in their full size. */
function normalize(vector: readonly number[]): number[] {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? [...vector] : vector.map((value) => value / length);
}

function promptTokens(answer: unknown, request: Record<string, unknown>): number {
  const told = member(member(answer, "usageMetadata"), "promptTokenCount");
  if (typeof told === "number" && Number.isSafeInteger(told) && told > 0) return told;
  return textsOf(request["input"]).reduce((sum, text) => sum + Math.ceil(estimateTokens(text)), 0);
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
  const tokens = promptTokens(answer, request);
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
