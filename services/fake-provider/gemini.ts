import {
  allInput,
  type Answer,
  type AnswerTool,
  type Claim,
  type Frame,
  joinPieces,
  planAnswer,
  type Plan,
  quietFrame,
  randomId,
} from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import { renderError } from "./errors.ts";
import { planGeminiMedia } from "./gemini-media.ts";
import { needsSignatures } from "./gemini-request.ts";
import type { FakeRequest } from "./request.ts";

type Part = Record<string, unknown>;
type Counts = Pick<Claim, "outputTokens" | "reasoningTokens">;

/** An answer, and what only this format needs of it. */
type ComposedAnswer = { answer: Answer; responseId: string; signature: string | undefined; hasCallIds: boolean };

const finishReasons = { stop: "STOP", length: "MAX_TOKENS", tools: "STOP" };

/** Answers as generateContent and streamGenerateContent do. */
export function planGemini(request: FakeRequest, behaviour: Behaviour): Plan {
  const made = planGeminiMedia(request, behaviour, renderUsage);
  if (made) return made;
  const answer = planAnswer(request, behaviour);
  const isStrict = needsSignatures(request.model);
  const composed = {
    answer,
    responseId: randomId("", 23),
    signature: isStrict || answer.thinking.length > 0 ? makeSignature() : undefined,
    hasCallIds: isStrict,
  };
  const errorFrames = (): Frame[] => [renderErrorFrame(behaviour)];
  return {
    claim: answer.claim,
    tokens: answer.tokens,
    render: () =>
      request.isStream
        ? { type: "text/event-stream", framing: { isCrlf: true }, frames: renderFrames(composed), errorFrames }
        : { type: "application/json; charset=UTF-8", body: renderWhole(composed) },
  };
}

function makeSignature(): string {
  return Buffer.from(randomId("fake-signature-", 48)).toString("base64");
}

function renderWhole(composed: ComposedAnswer): string {
  const { answer } = composed;
  const parts = [
    ...(answer.thinking.length > 0 ? [thought(joinPieces(answer.thinking))] : []),
    ...(answer.text.length > 0 ? [{ text: joinPieces(answer.text), ...(isLast(answer) && sign(composed)) }] : []),
    ...callParts(composed).map(({ part }) => part),
  ];
  const candidates = indexes(answer).map((index) => ({ content: modelTurn(parts), ...finish(answer), index }));
  return `${JSON.stringify(chunkOf(composed, candidates, answer.claim), null, 2)}\n`;
}

// Every chunk tells the counts so far. Calls come whole, one to a chunk; the last chunk says why it ended.
function renderFrames(composed: ComposedAnswer): Frame[] {
  const { answer } = composed;
  const emitted: Counts = { outputTokens: 0, reasoningTokens: 0 };
  const frames = steps(composed).flatMap(({ part, tokens, bucket }) =>
    indexes(answer).map((index) => {
      emitted[bucket] += tokens;
      const data = spaced(chunkOf(composed, [{ content: modelTurn([part]), index }], soFar(answer.claim, emitted)));
      return { data, tokens, isContent: true };
    }),
  );
  const lastParts = [{ text: "", ...(isLast(answer) && sign(composed)) }];
  const ends = indexes(answer).map((index) => {
    const candidate = { content: modelTurn(lastParts), ...finish(answer), index };
    const isEnd = index === answer.choices - 1;
    const counts = isEnd ? answer.claim : soFar(answer.claim, emitted);
    const hasClaim = isEnd && answer.claim !== undefined;
    return { ...quietFrame(spaced(chunkOf(composed, [candidate], counts))), hasClaim };
  });
  return [...frames, ...ends];
}

function renderErrorFrame({ error }: Behaviour): Frame {
  const override = { message: "The model is overloaded. Please try again later.", ...error };
  return quietFrame(spaced(JSON.parse(renderError("gemini", { status: 503, override, requestId: "" }))));
}

type Step = { part: Part; tokens: number; bucket: keyof Counts };

function steps(composed: ComposedAnswer): Step[] {
  const { answer } = composed;
  return [
    ...answer.thinking.map(({ text, tokens }) => ({ part: thought(text), tokens, bucket: "reasoningTokens" as const })),
    ...answer.text.map(({ text, tokens }) => ({ part: { text }, tokens, bucket: "outputTokens" as const })),
    ...callParts(composed).map((call) => ({ ...call, bucket: "outputTokens" as const })),
  ];
}

// Of parallel calls only the first is signed.
function callParts(composed: ComposedAnswer): { part: Part; tokens: number }[] {
  return composed.answer.tools.map((tool, index) => ({
    part: { functionCall: functionCall(tool, composed), ...(index === 0 && sign(composed)) },
    tokens: tool.tokens,
  }));
}

function functionCall(tool: AnswerTool, { hasCallIds }: ComposedAnswer): object {
  return { name: tool.name, args: tool.arguments, ...(hasCallIds && { id: randomId("", 8).toLowerCase() }) };
}

function chunkOf({ answer, responseId }: ComposedAnswer, candidates: object[], claim: Claim | undefined): object {
  const usage = claim && { usageMetadata: renderUsage(claim) };
  return { candidates, ...usage, modelVersion: answer.model, responseId };
}

function renderUsage(claim: Claim): object {
  const { audioInputTokens = 0, imageInputTokens = 0, audioOutputTokens = 0, imageOutputTokens = 0 } = claim;
  const promptTokenCount = allInput(claim);
  const candidatesTokenCount = claim.outputTokens + audioOutputTokens + imageOutputTokens;
  const thoughtsTokenCount = claim.reasoningTokens;
  const textTokens = promptTokenCount - audioInputTokens - imageInputTokens;
  const { cacheReadTokens } = claim;
  return {
    promptTokenCount,
    ...(cacheReadTokens > 0 && { cachedContentTokenCount: cacheReadTokens }),
    candidatesTokenCount,
    totalTokenCount: promptTokenCount + candidatesTokenCount + thoughtsTokenCount,
    promptTokensDetails: byKind({ TEXT: textTokens, AUDIO: audioInputTokens, IMAGE: imageInputTokens }),
    ...(cacheReadTokens > 0 && { cacheTokensDetails: byKind({ TEXT: cacheReadTokens }) }),
    ...(candidatesTokenCount > claim.outputTokens && {
      candidatesTokensDetails: byKind({
        TEXT: claim.outputTokens,
        AUDIO: audioOutputTokens,
        IMAGE: imageOutputTokens,
      }),
    }),
    ...(thoughtsTokenCount > 0 && { thoughtsTokenCount }),
  };
}

function byKind(counts: Record<string, number>): object[] {
  const told = Object.entries(counts).filter(([, tokenCount]) => tokenCount > 0);
  return told.map(([modality, tokenCount]) => ({ modality, tokenCount }));
}

// Never more than will be claimed in the end, so that the counts of a stream only grow.
function soFar(claim: Claim | undefined, emitted: Counts): Claim | undefined {
  if (!claim) return undefined;
  const outputTokens = Math.min(emitted.outputTokens, claim.outputTokens);
  const reasoningTokens = Math.min(emitted.reasoningTokens, claim.reasoningTokens);
  return { ...claim, outputTokens, reasoningTokens, audioOutputTokens: 0, imageOutputTokens: 0 };
}

function finish({ finish: { cause, wording } }: Answer): object {
  const finishMessage = "Model generated function call(s).";
  return { finishReason: wording ?? finishReasons[cause], ...(cause === "tools" && { finishMessage }) };
}

function thought(text: string): Part {
  return { text, thought: true };
}

function modelTurn(parts: Part[]): object {
  return { parts, role: "model" };
}

// Where there are calls, the first of them bears the signature, else the last text.
function isLast(answer: Answer): boolean {
  return answer.tools.length === 0;
}

function sign({ signature }: ComposedAnswer): Part {
  return signature === undefined ? {} : { thoughtSignature: signature };
}

function indexes(answer: Answer): number[] {
  return Array.from({ length: answer.choices }, (_, index) => index);
}

// JSON with a space behind every colon and none behind a comma, as the provider streams it.
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, field]) => `${JSON.stringify(name)}: ${spaced(field)}`)
    .join(",")}}`;
}
