import {
  allInput,
  allOutput,
  type Answer,
  type Claim,
  claimUnder,
  type Frame,
  joinPieces,
  planAnswer,
  type Plan,
} from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { FormFile } from "./dialect.ts";
import type { FakeRequest } from "./request.ts";
import { durationMs } from "./sound.ts";

/** Tokens of a second of sound that is heard. */
const tokensPerSecond = 10;

/**
 * Says what it heard, also in English where that is asked: a word for every second of the file. Models named whisper
 * bill by duration, in whole seconds, and do not stream; any other bills by tokens. Plain texts and subtitles have no
 * place for the use.
 */
export function planTranscription(request: FakeRequest, behaviour: Behaviour): Plan {
  const file = request.fields["file"] as FormFile;
  const seconds = Math.ceil(durationMs(file.bytes) / 1_000);
  const words = behaviour.outputTokens ?? seconds;
  const text = Array.from({ length: words }, (_, index) => `word${index + 1}`).join(" ");
  const answer = planAnswer({ ...request, choices: 1 }, { text, ...behaviour });
  const byDuration = request.model.startsWith("whisper");
  const tokensTold = {
    inputTokens: request.promptTokens,
    audioInputTokens: seconds * tokensPerSecond,
    outputTokens: answer.tokens,
  };
  const { response_format: asked } = request.fields;
  const format = typeof asked === "string" ? asked : "json";
  const tellsUse = format === "json" || format === "verbose_json" || format === "diarized_json";
  const counted = byDuration ? { mediaMs: seconds * 1_000 } : tokensTold;
  const claim = tellsUse ? claimUnder(behaviour, counted) : undefined;
  const task = request.dialect === "translations" ? "translate" : "transcribe";
  const heard: Transcript = { task, answer, seconds, claim, format };
  return {
    claim,
    tokens: answer.tokens,
    render: () =>
      request.isStream && !byDuration
        ? {
            type: "text/event-stream; charset=utf-8",
            frames: renderFrames(heard),
            errorFrames: () => [errorFrame(behaviour.error?.message ?? "The server had an error.")],
          }
        : renderWhole(heard),
  };
}

type Transcript = { task: string; answer: Answer; seconds: number; claim: Claim | undefined; format: string };

function renderWhole({ task, answer, seconds, claim, format }: Transcript): { type: string; body: string } {
  const text = joinPieces(answer.text);
  const usage = claim && { usage: renderUsage(claim) };
  const plain = "text/plain; charset=utf-8";
  if (format === "text") return { type: plain, body: `${text}\n` };
  if (format === "srt") return { type: plain, body: `1\n00:00:00,000 --> ${clock(seconds)},000\n${text}\n\n` };
  if (format === "vtt") return { type: plain, body: `WEBVTT\n\n00:00:00.000 --> ${clock(seconds)}.000\n${text}\n\n` };
  const verbose = {
    task,
    language: "english",
    duration: seconds,
    text,
    segments: [{ id: 0, seek: 0, start: 0, end: seconds, text, tokens: [], temperature: 0, ...quality }],
  };
  const whole = format === "verbose_json" ? verbose : { text };
  return { type: "application/json", body: JSON.stringify({ ...whole, ...usage }) };
}

const quality = { avg_logprob: -0.28, compression_ratio: 1.2, no_speech_prob: 0.01 };

function renderFrames({ answer, claim }: Transcript): Frame[] {
  const deltas = answer.text.map(({ text, tokens }): Frame => ({
    data: JSON.stringify({ type: "transcript.text.delta", delta: text }),
    tokens,
    isContent: true,
  }));
  const done = { type: "transcript.text.done", text: joinPieces(answer.text) };
  const data = JSON.stringify({ ...done, ...(claim && { usage: renderUsage(claim) }) });
  return [...deltas, { data, tokens: 0, isContent: false, hasClaim: claim !== undefined }];
}

function errorFrame(message: string): Frame {
  const error = { type: "server_error", code: null, message, param: null };
  return { data: JSON.stringify({ type: "error", error }), tokens: 0, isContent: false };
}

function renderUsage(claim: Claim): object {
  if (claim.mediaMs !== undefined) return { type: "duration", seconds: claim.mediaMs / 1_000 };
  const { audioInputTokens = 0 } = claim;
  return {
    type: "tokens",
    input_tokens: allInput(claim),
    input_token_details: { text_tokens: allInput(claim) - audioInputTokens, audio_tokens: audioInputTokens },
    output_tokens: allOutput(claim),
    total_tokens: allInput(claim) + allOutput(claim),
  };
}

function clock(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(11, 19);
}
