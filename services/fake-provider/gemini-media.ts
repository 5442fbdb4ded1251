import { type Claim, claimUnder, type Plan, randomId } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { Fields } from "./dialect.ts";
import { vectorOf } from "./embeddings.ts";
import { configOf, embeddingsOf } from "./gemini-request.ts";
import { pictureOf } from "./images.ts";
import { countWords } from "./prompt.ts";
import type { FakeRequest } from "./request.ts";
import { soundOf } from "./sound.ts";

const defaultDimensions = 3_072;
const tokensOfPicture = 1_290;
const tokensOfWord = 2;

type RenderUsage = (claim: Claim) => object;

/** Answers requests for numbers, pictures and sound; undefined for those that ask for text. */
export function planGeminiMedia(request: FakeRequest, behaviour: Behaviour, usage: RenderUsage): Plan | undefined {
  if (embeddingsOf(request.fields).length > 0) return planEmbeddings(request, behaviour);
  const { responseModalities } = configOf(request.fields);
  if (!Array.isArray(responseModalities) || responseModalities.includes("TEXT")) return undefined;
  const made = makeMedia(request, behaviour, responseModalities);
  const claim = claimUnder(behaviour, { inputTokens: request.promptTokens, ...made.counts });
  // Why it made nothing comes in the place of what it would have made.
  const candidate = behaviour.finish
    ? { finishReason: behaviour.finish, index: 0 }
    : { content: { parts: [made.part], role: "model" }, finishReason: "STOP", index: 0 };
  const whole = {
    candidates: [candidate],
    ...(claim && { usageMetadata: usage(claim) }),
    modelVersion: behaviour.servedModel ?? request.model,
    responseId: randomId("", 23),
  };
  return { claim, tokens: made.tokens, render: () => jsonOf(whole) };
}

// Most models tell nothing of the use of embeddings, but a test may make them tell.
function planEmbeddings(request: FakeRequest, behaviour: Behaviour): Plan {
  const claim = behaviour.usage && claimUnder(behaviour, { inputTokens: request.promptTokens });
  const embeddings = embeddingsOf(request.fields).map(({ content, outputDimensionality: length }) => {
    const vector = vectorOf(JSON.stringify(content), typeof length === "number" ? length : defaultDimensions);
    // Of length 1 only in their full size.
    return { values: Array.from(vector, (value) => (length === undefined ? value : value * 2)) };
  });
  const usage = claim && { usageMetadata: { promptTokenCount: claim.inputTokens } };
  return { claim, tokens: 0, render: () => jsonOf({ embeddings, ...usage }) };
}

type MediaPart = { part: Fields; counts: Partial<Claim>; tokens: number };

/** Pictures or sound; words, if it is told to say some, and nothing where it refuses. */
function makeMedia(request: FakeRequest, behaviour: Behaviour, modalities: unknown[]): MediaPart {
  const { text, finish } = behaviour;
  if (finish) return { part: {}, counts: {}, tokens: 0 };
  if (text === undefined) return modalities.includes("IMAGE") ? picture(request, behaviour) : sound(request);
  const tokens = countWords(text);
  return { part: { text }, counts: { outputTokens: tokens }, tokens };
}

function picture(request: FakeRequest, behaviour: Behaviour): MediaPart {
  const inlineData = { mimeType: "image/png", data: pictureOf({ request, behaviour }, 0) };
  return { part: { inlineData }, counts: { imageOutputTokens: tokensOfPicture }, tokens: tokensOfPicture };
}

function sound({ lastUserText }: FakeRequest): MediaPart {
  const words = countWords(lastUserText);
  const data = soundOf("pcm", lastUserText, words).toString("base64");
  const tokens = words * tokensOfWord;
  const inlineData = { mimeType: "audio/L16;codec=pcm;rate=24000", data };
  return { part: { inlineData }, counts: { audioOutputTokens: tokens }, tokens };
}

function jsonOf(body: object): { type: string; body: string } {
  return { type: "application/json; charset=UTF-8", body: `${JSON.stringify(body, null, 2)}\n` };
}
