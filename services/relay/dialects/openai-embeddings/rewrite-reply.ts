import { member, type Envelope } from "../dialect.ts";

const bytesPerFloat = 4;

/** float32 values, little-endian, in base64: what the provider sends as encoding_format base64. */
function toBase64(values: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(values.length * bytesPerFloat);
  values.forEach((value, index) => bytes.writeFloatLE(value, index * bytesPerFloat));
  return bytes.toString("base64");
}

function toNumbers(text: string): number[] {
  const bytes = Buffer.from(text, "base64");
  return Array.from({ length: Math.floor(bytes.length / bytesPerFloat) }, (_, index) =>
    bytes.readFloatLE(index * bytesPerFloat),
  );
}

const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((item) => typeof item === "number");

function asAsked(embedding: unknown, wantsBase64: boolean): unknown {
  if (wantsBase64 && isNumbers(embedding)) return toBase64(embedding);
  if (!wantsBase64 && typeof embedding === "string") return toNumbers(embedding);
  return embedding;
}

/**
 * Embeddings in the encoding that the caller asked for, where the upstream sent the other one: older official clients
 * read numbers as base64 without noticing. undefined when all of them are as asked.
 */
export function rewriteReply(body: unknown, { body: request }: Envelope): Buffer | undefined {
  const wantsBase64 = request.read("encoding_format") === "base64";
  const data = member(body, "data");
  if (!Array.isArray(data)) return undefined;
  const isAsAsked = data.every((item) => (typeof member(item, "embedding") === "string") === wantsBase64);
  if (isAsAsked) return undefined;
  const rewritten = data.map((item: unknown) => ({
    ...(item as object),
    embedding: asAsked(member(item, "embedding"), wantsBase64),
  }));
  return Buffer.from(JSON.stringify({ ...(body as object), data: rewritten }));
}
