import { allInput, allOutput, type Claim, claimUnder, type Frame, planAnswer, type Plan } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import type { FakeRequest } from "./request.ts";
import { headOf, soundOf, soundTypes } from "./sound.ts";

/** Tokens of a spoken word. */
const tokensOfWord = 2;

/**
 * Speaks the input word by word. The use is told only when the answer is asked for as events (`stream_format: "sse"`);
 * plain sound has no place for it.
 */
export function planSpeech(request: FakeRequest, behaviour: Behaviour): Plan {
  const { response_format: format, stream_format: streamFormat } = request.fields;
  const sound = typeof format === "string" && format in soundTypes ? format : "mp3";
  const said = planAnswer({ ...request, choices: 1 }, { ...behaviour, text: request.lastUserText });
  const words = said.text.map(({ text, tokens }) => ({
    bytes: soundOf(sound, text, tokens),
    tokens: tokens * tokensOfWord,
  }));
  const tokens = words.reduce((sum, word) => sum + word.tokens, 0);
  const isEvents = streamFormat === "sse";
  const counted = { inputTokens: request.promptTokens, audioOutputTokens: tokens };
  const claim = isEvents ? claimUnder(behaviour, counted) : undefined;
  const wordFrames = words.map((word): Frame => ({
    ...word,
    isContent: true,
    data: JSON.stringify({ type: "speech.audio.delta", audio: word.bytes.toString("base64") }),
  }));
  return {
    claim,
    tokens,
    render: () => ({
      type: isEvents ? "text/event-stream; charset=utf-8" : (soundTypes[sound] ?? ""),
      frames: isEvents
        ? [...wordFrames.map(({ bytes: _, ...event }) => event), doneFrame(claim)]
        : withHead(headOf(sound, words), wordFrames),
      errorFrames: () => (isEvents ? [errorFrame(behaviour.error?.message ?? "The server had an error.")] : []),
    }),
  };
}

function withHead(head: Buffer, frames: Frame[]): Frame[] {
  if (head.length === 0) return frames;
  return [{ data: "", bytes: head, tokens: 0, isContent: false }, ...frames];
}

function doneFrame(claim: Claim | undefined): Frame {
  const usage = claim && {
    usage: {
      input_tokens: allInput(claim),
      output_tokens: allOutput(claim),
      total_tokens: allInput(claim) + allOutput(claim),
    },
  };
  const data = JSON.stringify({ type: "speech.audio.done", ...usage });
  return { data, tokens: 0, isContent: false, hasClaim: claim !== undefined };
}

function errorFrame(message: string): Frame {
  const error = { type: "server_error", code: null, message, param: null };
  return { data: JSON.stringify({ type: "error", error }), tokens: 0, isContent: false };
}
