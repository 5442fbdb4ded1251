import { createHash } from "node:crypto";
import { claimUnder, type Plan } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { FakeRequest } from "./request.ts";

const defaultDimensions = 1_536;

/** Turns every text of a request into a vector that depends on that text alone. */
export function planEmbeddings(request: FakeRequest, behaviour: Behaviour): Plan {
  const { input, dimensions, encoding_format: encoding } = request.fields;
  const inputs = Array.isArray(input) && typeof input[0] !== "number" ? (input as unknown[]) : [input];
  const claim = claimUnder(behaviour, { inputTokens: request.promptTokens });
  const length = typeof dimensions === "number" ? dimensions : defaultDimensions;
  const render = (): string =>
    JSON.stringify({
      object: "list",
      data: inputs.map((one, index) => {
        const vector = vectorOf(typeof one === "string" ? one : JSON.stringify(one), length);
        return { object: "embedding", index, embedding: encoding === "base64" ? toBase64(vector) : [...vector] };
      }),
      model: behaviour.servedModel ?? request.model,
      ...(claim && { usage: { prompt_tokens: claim.inputTokens, total_tokens: claim.inputTokens } }),
    });
  return { claim, tokens: 0, render: () => ({ type: "application/json", body: render() }) };
}

/** The vector of a text: of length 1, the same for the same text. */
export function vectorOf(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions);
  let state = createHash("sha256").update(text).digest().readUInt32LE(0) || 1;
  for (let at = 0; at < dimensions; at += 1) {
    // Xorshift: any cheap sequence that its seed decides will do.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    vector[at] = state / 2 ** 31;
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

// 32-bit floats in little-endian order, as the provider and its clients have them.
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * 4);
  return bytes.toString("base64");
}
