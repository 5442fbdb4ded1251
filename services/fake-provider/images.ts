import { createHash } from "node:crypto";
import { crc32, deflateSync } from "node:zlib";
import { allInput, allOutput, type Claim, claimUnder, type Frame, type Plan } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { Fields } from "./dialect.ts";
import type { FakeRequest } from "./request.ts";

/** Tokens of a picture by quality and size, as the provider publishes them for gpt-image-1. */
const tokensOfPicture: Record<string, Record<string, number>> = {
  low: { "1024x1024": 272, "1024x1536": 408, "1536x1024": 400 },
  medium: { "1024x1024": 1_056, "1024x1536": 1_584, "1536x1024": 1_568 },
  high: { "1024x1024": 4_160, "1024x1536": 6_240, "1536x1024": 6_208 },
};

/** Tokens of a picture shown before it is finished. */
const tokensOfPartial = 100;

type Paint = { request: FakeRequest; behaviour: Behaviour; size: string; quality: string; format: string };

/**
 * Paints pictures that depend on the prompt. Models named dall-e give pictures or their addresses and tell no use; any
 * other gives pictures, streams them, and tells its use in tokens.
 */
export function planImages(request: FakeRequest, behaviour: Behaviour): Plan {
  const { size, quality, output_format: format } = request.fields;
  const paint: Paint = {
    request,
    behaviour,
    size: typeof size === "string" && size !== "auto" ? size : "1024x1024",
    quality: typeof quality === "string" && quality !== "auto" ? quality : "medium",
    format: typeof format === "string" ? format : "png",
  };
  const count = behaviour.choices ?? request.choices;
  if (request.model.startsWith("dall-e")) return planAddresses(paint, count);
  const partials = request.isStream ? Number(request.fields["partial_images"] ?? 0) : 0;
  const each = tokensOfPicture[paint.quality]?.[paint.size] ?? 1_056;
  const tokens = (each + tokensOfPartial * partials) * count;
  const claim = claimUnder(behaviour, { inputTokens: request.promptTokens, imageOutputTokens: tokens });
  const render = (): ReturnType<Plan["render"]> =>
    request.isStream
      ? {
          type: "text/event-stream; charset=utf-8",
          frames: renderFrames(paint, { partials, each, count, claim }),
          errorFrames: () => [errorFrame(behaviour.error?.message ?? "The server had an error.")],
        }
      : { type: "application/json", body: renderWhole(paint, count, claim) };
  return { claim, tokens, render };
}

function planAddresses(paint: Paint, count: number): Plan {
  const { request, behaviour } = paint;
  const asBytes = request.fields["response_format"] === "b64_json";
  const data = Array.from({ length: count }, (_, index) => {
    const name = `${hashOf(paint, index).toString("hex").slice(0, 24)}.png`;
    const revised = request.model === "dall-e-3" ? { revised_prompt: request.lastUserText } : {};
    return {
      ...revised,
      ...(asBytes ? { b64_json: pictureOf(paint, index) } : { url: `https://pictures.example.com/${name}` }),
    };
  });
  // Told nowhere, but a test may make it tell.
  const claim = behaviour.usage === undefined ? undefined : claimUnder(behaviour, {});
  const whole = { created: nowSeconds(), data, ...(claim && { usage: renderUsage(claim) }) };
  return { claim, tokens: 0, render: () => ({ type: "application/json", body: JSON.stringify(whole) }) };
}

function renderWhole(paint: Paint, count: number, claim: Claim | undefined): string {
  const { size, quality, format } = paint;
  const data = Array.from({ length: count }, (_, index) => ({ b64_json: pictureOf(paint, index) }));
  const made = { background: "opaque", data, output_format: format, quality, size };
  return JSON.stringify({ created: nowSeconds(), ...made, ...(claim && { usage: renderUsage(claim) }) });
}

function renderFrames(
  paint: Paint,
  { partials, each, count, claim }: { partials: number; each: number; count: number; claim: Claim | undefined },
): Frame[] {
  const { size, quality, format } = paint;
  const made = { created_at: nowSeconds(), background: "opaque", output_format: format, quality, size };
  const frame = (type: string, fields: Fields, tokens: number): Frame => {
    const event = `${paint.request.dialect === "edits" ? "image_edit" : "image_generation"}.${type}`;
    return { event, data: JSON.stringify({ type: event, ...fields, ...made }), tokens, isContent: true };
  };
  const partialsOf = (image: number): Frame[] =>
    Array.from({ length: partials }, (_, index) =>
      frame(
        "partial_image",
        { partial_image_index: index, b64_json: pictureOf(paint, image + index + 1) },
        tokensOfPartial,
      ),
    );
  const finished = (image: number): Frame => {
    const usage = claim && { usage: renderUsage(shareOf(claim, image, count)) };
    const whole = frame("completed", { b64_json: pictureOf(paint, image), ...usage }, each);
    return { ...whole, hasClaim: claim !== undefined && image === count - 1 };
  };
  return Array.from({ length: count }, (_, image) => [...partialsOf(image), finished(image)]).flat();
}

/** What is told of one picture of many: its own output, and the input of all. */
function shareOf(claim: Claim, image: number, count: number): Claim {
  const { imageOutputTokens = 0 } = claim;
  const share = Math.floor(imageOutputTokens / count);
  return { ...claim, imageOutputTokens: image === count - 1 ? imageOutputTokens - share * (count - 1) : share };
}

function errorFrame(message: string): Frame {
  const error = { type: "image_generation_server_error", code: "server_error", message, param: null };
  return { event: "error", data: JSON.stringify({ type: "error", error }), tokens: 0, isContent: false };
}

function renderUsage(claim: Claim): object {
  const { imageInputTokens = 0, imageOutputTokens = 0 } = claim;
  return {
    input_tokens: allInput(claim),
    input_tokens_details: { image_tokens: imageInputTokens, text_tokens: allInput(claim) - imageInputTokens },
    output_tokens: allOutput(claim),
    output_tokens_details: { image_tokens: imageOutputTokens, text_tokens: claim.outputTokens },
    total_tokens: allInput(claim) + allOutput(claim),
  };
}

// A real PNG of one pixel in the prompt's colour; bytes behind its end make it as large as a test wants.
export function pictureOf(paint: Pick<Paint, "request" | "behaviour">, index: number): string {
  const colour = hashOf(paint, index).subarray(0, 3);
  const header = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]);
  const pixels = deflateSync(Buffer.concat([Buffer.from([0]), colour]));
  const picture = Buffer.concat([
    Buffer.from("89504e470d0a1a0a", "hex"),
    pngChunk("IHDR", header),
    pngChunk("IDAT", pixels),
    pngChunk("IEND", Buffer.alloc(0)),
  ]);
  const padding = Math.max(0, (paint.behaviour.textBytes ?? 0) - picture.length);
  return Buffer.concat([picture, Buffer.alloc(padding)]).toString("base64");
}

function pngChunk(type: string, content: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), content]);
  const chunk = Buffer.alloc(named.length + 8);
  chunk.writeUInt32BE(content.length, 0);
  named.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(named), named.length + 4);
  return chunk;
}

function hashOf({ request }: Pick<Paint, "request">, index: number): Buffer {
  return createHash("sha256").update(`${index} ${request.lastUserText}`).digest();
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
