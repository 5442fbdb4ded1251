import { inflateSync } from "node:zlib";
import { imageSize } from "image-size";
import type { RequestBody } from "../dialects/json/request-body.ts";
import { measureSound } from "../dialects/openai-transcriptions/sound/measure-sound.ts";

/** Tokens of a picture of unknown size, and a token for each so many bytes of what is no picture, page or sound. */
export const usualPictureTokens = 1_600;
const bytesPerToken = 1_000;
// Anthropic bills a token for 750 pixels, at most 4,784 for a picture (platform.claude.com/docs/en/build-with-claude/
// vision); OpenAI at least 85 (developers.openai.com/api/docs/guides/images-vision).
const pixelsPerToken = 750;
const minPictureTokens = 85;
export const maxPictureTokens = 4_784;
// 1,500 to 3,000 tokens of text for a page of a PDF, and what its picture has (platform.claude.com/docs/en/
// build-with-claude/pdf-support).
const tokensPerPage = 4_400;
/** Base64 of ten tokens of speech, a second, at 32 kbit/s. */
const soundCharactersPerToken = 533;
// OpenAI bills 10 tokens for a second of sound (developers.openai.com/api/docs/guides/realtime-costs), Gemini 32
// (ai.google.dev/gemini-api/docs/tokens).
const soundTokensPerSecond = 10;
const mostSoundTokensPerSecond = 32;

// What is looked at of a picture: its size stands behind what a camera has written.
const headCharacters = 2 ** 19;
const mostPdfCharacters = 2 ** 26;
const mostInflatedBytes = 2 ** 22;
const mostObjectStreams = 512;

const pdfHead = "JVBERi";
const pageMark = /\/Type\s*\/Page(?![A-Za-z])/g;
const objectStream = Buffer.from("/ObjStm");
const streamStart = /stream\r?\n/;

const countMarks = (text: string): number => text.match(pageMark)?.length ?? 0;

/** Pages that the compressed objects of a PDF name; undefined where there is more than is looked at. */
function countCompressed(pdf: Buffer): number | undefined {
  let pages = 0;
  let left = mostInflatedBytes;
  let streams = 0;
  for (let at = pdf.indexOf(objectStream); at !== -1; at = pdf.indexOf(objectStream, at + 1)) {
    const head = streamStart.exec(pdf.toString("latin1", at, at + 1_024));
    if (!head) continue;
    if ((streams += 1) > mostObjectStreams) return undefined;
    const start = at + head.index + head[0].length;
    const end = pdf.indexOf("endstream", start);
    try {
      const text = inflateSync(pdf.subarray(start, end === -1 ? pdf.length : end), { maxOutputLength: left });
      left -= text.length;
      pages += countMarks(text.toString("latin1"));
    } catch {
      return undefined;
    }
  }
  return pages;
}

/** Pages of a PDF in base64; undefined where it does not tell, as one that is encrypted or very large. */
function countPages(base64: string): number | undefined {
  if (base64.length > mostPdfCharacters) return undefined;
  const pdf = Buffer.from(base64, "base64");
  const compressed = pdf.includes("/Encrypt") ? undefined : countCompressed(pdf);
  if (compressed === undefined) return undefined;
  const pages = compressed + countMarks(pdf.toString("latin1"));
  return pages === 0 ? undefined : pages;
}

function sizeOf(head: Buffer): { width: number; height: number } | undefined {
  try {
    return imageSize(head);
  } catch {
    return undefined;
  }
}

/** Tokens of a picture by its size, of which providers bill so much at most. */
function pictureTokens({ width, height }: { width: number; height: number }): number {
  const tokens = Math.ceil((width * height) / pixelsPerToken);
  return Math.max(minPictureTokens, Math.min(tokens, maxPictureTokens));
}

/** Below it what stands in a place of media and is no picture is charged as text. */
const minMediaBytes = 2_048;
const tokensPerBase64 = 0.7;

/** What media is: its tokens, how many it may be, and whether these are no more than a guess. */
export type MediaTokens = { tokens: number; heldTokens: number; isUnbounded: boolean };

const fixed = (tokens: number): MediaTokens => ({ tokens, heldTokens: tokens, isUnbounded: false });

/** Sound, or what nobody knows and may be sound. */
function soundTokens(base64: string, guess: number): MediaTokens {
  const { leastMs, mostMs } = measureSound(Buffer.from(base64.replaceAll("\\", ""), "base64"));
  const heldTokens = Math.max(guess, (mostMs * mostSoundTokensPerSecond) / 1_000);
  // Both are the same where it is a format that is known.
  const tokens = leastMs === mostMs ? (leastMs * soundTokensPerSecond) / 1_000 : guess;
  return { tokens, heldTokens: Math.max(tokens, heldTokens), isUnbounded: false };
}

function tokensOf(text: string): MediaTokens {
  const start = text.startsWith("data:") ? text.indexOf(",") + 1 : 0;
  const head = text.slice(0, start);
  const base64 = start === 0 ? text : text.slice(start);
  if (base64.startsWith(pdfHead) || head.includes("pdf")) {
    const pages = countPages(base64.replaceAll("\\", ""));
    const guess = Math.ceil(base64.length / bytesPerToken) + usualPictureTokens;
    const tokens = pages === undefined ? guess : pages * tokensPerPage;
    return { ...fixed(tokens), isUnbounded: pages === undefined };
  }
  if (head.startsWith("data:audio")) {
    const tokens = Math.ceil(base64.length / soundCharactersPerToken);
    return soundTokens(base64, Math.max(tokens, usualPictureTokens));
  }
  const size = sizeOf(Buffer.from(base64.slice(0, headCharacters).replaceAll("\\", ""), "base64"));
  if (size) return fixed(pictureTokens(size));
  if (text.length < minMediaBytes) return fixed(text.length * tokensPerBase64);
  const guess = usualPictureTokens + Math.ceil(text.length / bytesPerToken);
  return head.startsWith("data:image") ? fixed(guess) : soundTokens(base64, guess);
}

const nothing = fixed(0);
const known = new WeakMap<RequestBody, MediaTokens>();

/** Tokens of all media of a body, about; read once. */
export function mediaTokens(body: RequestBody): MediaTokens {
  const before = known.get(body);
  if (before) return before;
  const { media } = body;
  if (media.length === 0) return nothing;
  const sum = { ...nothing };
  for (const { start, end } of media) {
    const { tokens, heldTokens, isUnbounded } = tokensOf(body.bytes.toString("latin1", start, end));
    sum.tokens += Math.ceil(tokens);
    sum.heldTokens += Math.ceil(heldTokens);
    sum.isUnbounded ||= isUnbounded;
  }
  known.set(body, sum);
  return sum;
}

/** Remembers what another thread has found of a body whose bytes it has. */
export const noteMediaTokens = (body: RequestBody, found: MediaTokens): void => void known.set(body, found);
