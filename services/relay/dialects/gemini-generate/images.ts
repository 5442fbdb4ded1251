import { UnsupportedError } from "../conversation.ts";
import { isGiven, member, stringOf, type Envelope, type Tally } from "../dialect.ts";
import { lostFields, readMediaTally, readMediaUsage, type WrittenCall } from "./media-call.ts";
import { pathOf } from "./request.ts";

const sizeText = /^(\d{2,5})x(\d{2,5})$/;

// What imageConfig.aspectRatio takes.
const ratios = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];
const valueOf = (ratio: string): number => {
  const [width = 1, height = 1] = ratio.split(":").map(Number);
  return width / height;
};
// 1792x1024 is the 16:9 of Format A, and 1 % away from it.
const tolerance = 0.02;

/** The ratio of a size in pixels, which Gemini chooses itself. */
function ratioOf(size: string): string {
  const [, width, height] = sizeText.exec(size) ?? [];
  const wanted = Number(width) / Number(height);
  const found = ratios.find((ratio) => Math.abs(valueOf(ratio) / wanted - 1) < tolerance);
  if (found === undefined) throw new UnsupportedError(`field size: this model makes no images of ${size}`);
  return found;
}

const carried = new Set(["model", "prompt", "n", "size"]);

/** `b64_json` is how images come anyway, and no stream is the default. */
function isHarmless(name: string, value: unknown): boolean {
  if (value === false || value === "auto") return true;
  return name === "response_format" && value === "b64_json";
}

/**
 * Writes a Format A request for an image as generateContent. Throws UnsupportedError for more images than one, for a
 * size of no ratio that Gemini makes, and for a stream.
 */
export function writeImage(request: Record<string, unknown>, model: string): WrittenCall {
  const { prompt, n, size, stream } = request;
  if (typeof prompt !== "string") throw new UnsupportedError("field prompt must be a string");
  if (isGiven(n) && n !== 1) throw new UnsupportedError("field n: this model makes one image at a time");
  if (stream === true) throw new UnsupportedError("field stream: this model does not stream images");
  const imageConfig =
    typeof size === "string" && size !== "auto" ? { imageConfig: { aspectRatio: ratioOf(size) } } : {};
  const dropped = lostFields(request, (name, value) => carried.has(name) || isHarmless(name, value));
  const body = {
    contents: [{ role: "user", parts: [{ text: prompt }] }],
    generationConfig: { responseModalities: ["IMAGE"], ...imageConfig },
  };
  return { path: pathOf(model, false), body, dropped };
}

/** The data of a kind of media in a whole answer, in base64. */
export function mediaOf(answer: unknown, kind: "image/" | "audio/"): { mediaType: string; data: string }[] {
  const candidates = member(answer, "candidates");
  const parts = (Array.isArray(candidates) ? candidates : []).flatMap((candidate: unknown) => {
    const found = member(member(candidate, "content"), "parts");
    return Array.isArray(found) ? (found as unknown[]) : [];
  });
  return parts.flatMap((part) => {
    const inline = member(part, "inlineData");
    const mediaType = stringOf(member(inline, "mimeType")) ?? "";
    const data = stringOf(member(inline, "data")) ?? "";
    // Drafts that the model made while it thought are no part of the answer.
    return mediaType.startsWith(kind) && data !== "" && member(part, "thought") !== true ? [{ mediaType, data }] : [];
  });
}

function writeUsage(answer: unknown): object | undefined {
  const units = readMediaUsage(answer, "imageOutputTokens");
  if (!units) return undefined;
  const { inputTokens = 0n, cacheReadTokens = 0n, imageInputTokens = 0n } = units;
  const { outputTokens = 0n, reasoningTokens = 0n, imageOutputTokens = 0n } = units;
  const text = inputTokens + cacheReadTokens;
  const words = outputTokens + reasoningTokens;
  const [input, output] = [text + imageInputTokens, words + imageOutputTokens];
  return {
    input_tokens: Number(input),
    output_tokens: Number(output),
    total_tokens: Number(input + output),
    input_tokens_details: { text_tokens: Number(text), image_tokens: Number(imageInputTokens) },
    output_tokens_details: { text_tokens: Number(words), image_tokens: Number(imageOutputTokens) },
  };
}

/** Gemini's answer as a Format A list of images; undefined when it holds none, which a refusal looks like. */
export function readImages(answer: unknown, createdAtSeconds: number): Record<string, unknown> | undefined {
  const images = mediaOf(answer, "image/");
  if (images.length === 0) return undefined;
  const usage = writeUsage(answer);
  return {
    created: createdAtSeconds,
    data: images.map(({ data }) => ({ b64_json: data })),
    output_format: images[0]?.mediaType.slice("image/".length),
    ...(usage && { usage }),
  };
}

/** Reads a whole answer: its pictures and its tokens. */
export function readTally(answer: unknown, envelope: Envelope): Tally | undefined {
  const tally = readMediaTally(answer, envelope, "imageOutputTokens");
  if (tally) tally.counted = { images: BigInt(mediaOf(answer, "image/").length) };
  return tally;
}
