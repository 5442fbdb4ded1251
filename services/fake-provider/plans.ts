import { type Answer, type Frame, planAnswer, type Plan } from "./answer.ts";
import type { Behaviour, Fault } from "./behaviour.ts";
import { renderChat, renderChatErrorFrame, renderChatFrames } from "./chat.ts";
import { planCompact } from "./compact.ts";
import { renderCompletion, renderCompletionFrames } from "./completions.ts";
import type { FakeDialect } from "./dialect.ts";
import { planEmbeddings } from "./embeddings.ts";
import { planImages } from "./images.ts";
import { renderMessage, renderMessageFrames, renderMessagesErrorFrame } from "./messages.ts";
import { planModerations } from "./moderations.ts";
import { planGemini } from "./gemini.ts";
import type { FakeRequest } from "./request.ts";
import { composeResponse, renderResponse, renderResponseErrorFrames, renderResponseFrames } from "./responses.ts";
import { planSpeech } from "./speech.ts";
import { planTranscription } from "./transcriptions.ts";

type Planner = (request: FakeRequest, behaviour: Behaviour, requestId: string) => Plan;

/** How a request is answered in each wire format. */
export const planners: Record<FakeDialect, Planner> = {
  chat: textPlanner((answer, { message }) => ({
    whole: () => renderChat(answer),
    frames: () => renderChatFrames(answer),
    errorFrames: () => [renderChatErrorFrame(message)],
  })),
  messages: textPlanner((answer, { message, requestId }) => ({
    whole: () => renderMessage(answer),
    frames: () => renderMessageFrames(answer),
    errorFrames: () => [renderMessagesErrorFrame(message, requestId)],
  })),
  responses: textPlanner((answer, { message, request }) => {
    const composed = composeResponse(answer, request.fields);
    return {
      whole: () => renderResponse(composed),
      frames: () => renderResponseFrames(composed),
      errorFrames: (kind, written) => renderResponseErrorFrames(composed, { kind, written, message }),
    };
  }),
  completions: textPlanner((answer, { message, request }) => ({
    whole: () => renderCompletion(answer, request.fields),
    frames: () => renderCompletionFrames(answer, request.fields),
    errorFrames: () => [renderChatErrorFrame(message)],
  })),
  compact: planCompact,
  embeddings: planEmbeddings,
  images: planImages,
  edits: planImages,
  speech: planSpeech,
  moderations: planModerations,
  transcriptions: planTranscription,
  translations: planTranscription,
  gemini: planGemini,
};

type Renderers = {
  whole: () => string;
  frames: () => Frame[];
  errorFrames: (kind: Fault["kind"], written: number) => Frame[];
};

type RefusalContext = { request: FakeRequest; requestId: string; message: string };

function textPlanner(renderers: (answer: Answer, asked: RefusalContext) => Renderers): Planner {
  return (request, behaviour, requestId) => {
    const answer = planAnswer(request, behaviour);
    const message = behaviour.error?.message ?? "Overloaded";
    const { whole, frames, errorFrames } = renderers(answer, { request, requestId, message });
    return {
      claim: answer.claim,
      tokens: answer.tokens,
      render: () =>
        request.isStream
          ? { type: "text/event-stream; charset=utf-8", frames: frames(), errorFrames }
          : { type: "application/json", body: whole() },
    };
  };
}
