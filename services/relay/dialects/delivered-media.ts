import type { AnswerSink } from "./answer.ts";
import { spokenTokens } from "./openai-realtime/sound.ts";

// What Google bills for a picture of up to 1,024 × 1,024 that a model of conversation draws
// (https://ai.google.dev/gemini-api/docs/pricing); OpenAI bills 272 to 6,240.
const pictureTokens = 1_290;

/** Counts sound in base64 that has passed; streams have 16-bit samples alone. */
export function deliverSound(sink: AnswerSink, base64: string): void {
  sink.delivered("audioOutputTokens", spokenTokens(base64.length, "pcm"));
}

/** Counts a picture that has passed. */
export function deliverPicture(sink: AnswerSink): void {
  sink.delivered("imageOutputTokens", pictureTokens);
}
