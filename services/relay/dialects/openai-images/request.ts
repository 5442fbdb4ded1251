import { member, RequestError, type Envelope } from "../dialect.ts";
import { readCount, readSwitch } from "../read-settings.ts";
import type { RequestBody } from "../json/request-body.ts";

const maxImages = 128;

// Output tokens of the largest image by quality, from the provider's price tables; "auto" may be any of them.
const tokensByQuality = new Map<unknown, number>([
  ["low", 408],
  ["medium", 1_584],
  ["high", 6_240],
]);
const dearestTokens = 6_240;

// A moving picture has up to 16, and 9 where the request does not say (openai 7.57).
const [maxFrames, defaultFrames] = [16, 9];

/** How many pictures one that is asked for may be. */
function framesOf(format: unknown, count: number | undefined): number {
  return format === "gif" ? Math.min(count ?? defaultFrames, maxFrames) : 1;
}

// Volcengine makes as many as its model likes, up to this number or a lower one
// (https://www.volcengine.com/docs/82379/1541523).
const maxSequence = 15;

/** How many images a request is for at most, by `count` or as a sequence. */
function imagesOf(body: RequestBody, count: number | undefined): number {
  if (body.read("sequential_image_generation") !== "auto") return count ?? 1;
  const most = member(body.readWhole("sequential_image_generation_options", 4_096), "max_images") ?? maxSequence;
  if (typeof most !== "number" || !(most >= 1 && most <= maxSequence)) {
    const name = "sequential_image_generation_options.max_images";
    throw new RequestError(`field ${name} must be a number from 1 to ${maxSequence}`);
  }
  return Math.max(Math.ceil(most), count ?? 1);
}

/** Reads a request for images; size and quality decide the price where the catalog says so. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const images = imagesOf(body, readCount(body, "n", maxImages));
  const quality = body.read("quality");
  const size = body.read("size");
  const tokens = tokensByQuality.get(quality) ?? dearestTokens;
  const frames = framesOf(body.read("output_format"), readCount(body, "frame_count", maxImages));
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: undefined,
    choices: 0,
    units: { images: BigInt(images), imageOutputTokens: BigInt(images * tokens * frames) },
    priceFields: {
      ...(typeof size === "string" && { size }),
      ...(typeof quality === "string" && { quality }),
    },
    wantsStreamUsage: true,
  };
}

// What a picture that is read may take: its parts, and as much again where faces and the like are kept
// (https://developers.openai.com/api/docs/guides/images-vision, input fidelity).
const tokensOfInput = 7_300;
const tokensOfPlainInput = 1_600;

const pictureFields = ["image", "image[]", "mask", "markup"];

/** A number that a form or JSON gives. Throws RequestError for what is none. */
function countOfField(body: RequestBody, name: string): number | undefined {
  const value = body.read(name);
  if (typeof value !== "string") return readCount(body, name, maxImages);
  if (!/^[1-9]\d{0,3}$/.test(value)) throw new RequestError(`field ${name} must be a number`);
  if (Number(value) > maxImages) throw new RequestError(`field ${name} must be at most ${maxImages}`);
  return Number(value);
}

function isStreamAsked(body: RequestBody): boolean {
  const value = body.read("stream");
  if (typeof value !== "string") return readSwitch(body, "stream");
  // Python writes a capital.
  const word = value.toLowerCase();
  if (word !== "true" && word !== "false") throw new RequestError("field stream must be true or false");
  return word === "true";
}

/** How many pictures a request brings: files of a form, or a list of addresses. */
function countPictures(body: RequestBody): number {
  const images = body.countItems("images", maxImages)?.count ?? 0;
  const named = [...body.names()].filter((name) => pictureFields.includes(name)).length;
  return images + named;
}

/** The body for which its pictures are counted as such, not as text. */
const withoutMedia = (body: RequestBody): RequestBody =>
  Object.create(body, { media: { value: [] }, mediaBytes: { value: [] }, addresses: { value: 0 } }) as RequestBody;

/** Reads a request for changes of images, which is a form with files, or JSON with their addresses. */
export function readEditEnvelope(body: RequestBody, model: string): Envelope {
  const pictures = countPictures(body);
  if (pictures === 0) throw new RequestError("field image is required");
  const images = countOfField(body, "n") ?? 1;
  const quality = body.read("quality");
  const size = body.read("size");
  const frames = framesOf(body.read("output_format"), countOfField(body, "frame_count"));
  const made = images * frames * (tokensByQuality.get(quality) ?? dearestTokens);
  const read = pictures * (body.read("input_fidelity") === "low" ? tokensOfPlainInput : tokensOfInput);
  return {
    body: withoutMedia(body),
    model,
    answer: isStreamAsked(body) ? "events" : "json",
    outputCap: undefined,
    choices: 0,
    units: { images: BigInt(images), imageInputTokens: BigInt(read), imageOutputTokens: BigInt(made) },
    priceFields: {
      ...(typeof size === "string" && { size }),
      ...(typeof quality === "string" && { quality }),
    },
    wantsStreamUsage: true,
  };
}
