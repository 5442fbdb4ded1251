import type { Dialect, DialectName, Envelope } from "./dialect.ts";
import * as messagesError from "./anthropic-messages/error.ts";
import { answers as messagesAnswers } from "./anthropic-messages/answers.ts";
import * as messagesRequest from "./anthropic-messages/request.ts";
import { metered } from "./meter-answer.ts";
import {
  chatMedia,
  imageEditsMedia,
  messagesMedia,
  moderationsMedia,
  noMedia,
  responsesMedia,
} from "./json/media-places.ts";
import { bearer } from "./openai-shared/bearer.ts";
import * as chatError from "./openai-shared/error.ts";
import { answers as chatAnswers } from "./openai-chat/answers.ts";
import * as chatRequest from "./openai-chat/request.ts";
import { answers as completionsAnswers } from "./openai-completions/answers.ts";
import * as completionsRequest from "./openai-completions/request.ts";
import { answers as embeddingsAnswers } from "./openai-embeddings/answers.ts";
import { rewriteReply } from "./openai-embeddings/rewrite-reply.ts";
import * as embeddingsRequest from "./openai-embeddings/request.ts";
import { answers as imagesAnswers } from "./openai-images/answers.ts";
import * as imagesRequest from "./openai-images/request.ts";
import { answers as moderationsAnswers } from "./openai-moderations/answers.ts";
import { answers as realtimeAnswers } from "./openai-realtime/answers.ts";
import { answers as responsesAnswers } from "./openai-responses/answers.ts";
import * as responsesRequest from "./openai-responses/request.ts";
import { stateIdsOf } from "./openai-responses/state-ids.ts";
import * as speechRequest from "./openai-speech/request.ts";
import { answers as speechAnswers } from "./openai-speech/answers.ts";
import { answers as transcriptionsAnswers } from "./openai-transcriptions/answers.ts";
import * as transcriptionsRequest from "./openai-transcriptions/request.ts";

/** The caller's body with the upstream's model name and nothing else changed. */
function replaceModel({ body, model }: Envelope, upstreamModel: string): Buffer {
  if (!body.has("model")) return body.rewrite({ remove: ["model"], add: { model: JSON.stringify(upstreamModel) } });
  return upstreamModel === model ? body.bytes : body.rewrite({ replace: { model: JSON.stringify(upstreamModel) } });
}

/** The same of a request that may be a form or JSON. */
function replaceModelIn(envelope: Envelope, upstreamModel: string): Buffer {
  const isForm = envelope.body.contentType.toLowerCase().startsWith("multipart/");
  return isForm ? replaceModelInForm(envelope, upstreamModel) : replaceModel(envelope, upstreamModel);
}

function replaceModelInForm({ body, model }: Envelope, upstreamModel: string): Buffer {
  return upstreamModel === model ? body.bytes : body.rewrite({ replace: { model: upstreamModel } });
}

const formatA = {
  format: "A",
  isConversation: false,
  takesForm: false,
  arrayFields: [],
  mediaPlaces: noMedia,
  upstreamHeaders: bearer,
  prepareBody: replaceModel,
  writeError: chatError.writeError,
  readError: chatError.readError,
} as const;

/** What is heard in a file, in its language or in English. */
const fromSound = {
  ...formatA,
  measures: [["mediaMs"], ["audioInputTokens", "outputTokens"]],
  requiredFields: ["model", "file"],
  takesForm: true,
  readEnvelope: transcriptionsRequest.readEnvelope,
  prepareBody: replaceModelInForm,
  ...metered(transcriptionsAnswers),
} as const;

const textMeasures = [["inputTokens", "outputTokens"]] as const;

const table: Record<DialectName, Omit<Dialect, "upstreamPath">> = {
  "openai-chat": {
    ...formatA,
    name: "openai-chat",
    path: "/v1/chat/completions",
    isConversation: true,
    measures: textMeasures,
    requiredFields: ["model", "messages"],
    arrayFields: ["messages"],
    mediaPlaces: chatMedia,
    statePlaces: { hasAudio: true },
    readEnvelope: chatRequest.readEnvelope,
    prepareBody: chatRequest.prepareBody,
    ...metered(chatAnswers),
  },
  "openai-responses": {
    ...formatA,
    name: "openai-responses",
    path: "/v1/responses",
    isConversation: true,
    measures: textMeasures,
    requiredFields: ["model"],
    mediaPlaces: responsesMedia,
    statePlaces: { hasItems: true },
    stateIdsOf,
    upstreamHeaders: responsesRequest.upstreamHeaders,
    readEnvelope: responsesRequest.readEnvelope,
    prepareBody: responsesRequest.prepareBody,
    ...metered(responsesAnswers),
  },
  "anthropic-messages": {
    name: "anthropic-messages",
    path: "/v1/messages",
    format: "B",
    isConversation: true,
    measures: textMeasures,
    requiredFields: ["model", "messages", "max_tokens"],
    arrayFields: ["messages"],
    mediaPlaces: messagesMedia,
    statePlaces: {},
    takesForm: false,
    readEnvelope: messagesRequest.readEnvelope,
    prepareBody: messagesRequest.prepareBody,
    upstreamHeaders: messagesRequest.upstreamHeaders,
    ...metered(messagesAnswers),
    writeError: messagesError.writeError,
    readError: messagesError.readError,
  },
  "openai-compact": {
    ...formatA,
    name: "openai-compact",
    path: "/v1/responses/compact",
    isConversation: true,
    measures: textMeasures,
    requiredFields: ["model"],
    mediaPlaces: responsesMedia,
    statePlaces: { hasItems: true },
    stateIdsOf,
    readEnvelope: responsesRequest.readCompactEnvelope,
    prepareBody: responsesRequest.prepareBody,
    ...metered(responsesAnswers),
  },
  "openai-embeddings": {
    ...formatA,
    name: "openai-embeddings",
    path: "/v1/embeddings",
    measures: [["inputTokens"]],
    requiredFields: ["model", "input"],
    readEnvelope: embeddingsRequest.readEnvelope,
    ...metered(embeddingsAnswers),
    rewriteReply,
  },
  "openai-completions": {
    ...formatA,
    name: "openai-completions",
    path: "/v1/completions",
    measures: textMeasures,
    requiredFields: ["model", "prompt"],
    readEnvelope: completionsRequest.readEnvelope,
    prepareBody: chatRequest.prepareBody,
    ...metered(completionsAnswers),
  },
  "openai-images": {
    ...formatA,
    name: "openai-images",
    path: "/v1/images/generations",
    measures: [["images"], ["inputTokens", "imageOutputTokens"]],
    requiredFields: ["prompt"],
    // What OpenAI runs where none is named, by its reference of both endpoints.
    defaultModel: "dall-e-2",
    readEnvelope: imagesRequest.readEnvelope,
    ...metered(imagesAnswers),
  },
  "openai-image-edits": {
    ...formatA,
    name: "openai-image-edits",
    path: "/v1/images/edits",
    measures: [["images"], ["inputTokens", "imageOutputTokens"]],
    requiredFields: ["model", "prompt"],
    takesForm: true,
    takesJson: true,
    mediaPlaces: imageEditsMedia,
    statePlaces: {},
    readEnvelope: imagesRequest.readEditEnvelope,
    prepareBody: replaceModelIn,
    ...metered(imagesAnswers),
  },
  "openai-speech": {
    ...formatA,
    name: "openai-speech",
    path: "/v1/audio/speech",
    measures: [["characters"], ["inputTokens", "audioOutputTokens"]],
    requiredFields: ["model", "input", "voice"],
    statePlaces: {},
    readEnvelope: speechRequest.readEnvelope,
    ...metered(speechAnswers),
  },
  "openai-moderations": {
    ...formatA,
    name: "openai-moderations",
    path: "/v1/moderations",
    measures: [["requests"], ["inputTokens"]],
    requiredFields: ["input"],
    defaultModel: "omni-moderation-latest",
    mediaPlaces: moderationsMedia,
    readEnvelope: embeddingsRequest.readEnvelope,
    ...metered(moderationsAnswers),
  },
  "openai-transcriptions": {
    ...fromSound,
    name: "openai-transcriptions",
    path: "/v1/audio/transcriptions",
  },
  "openai-translations": {
    ...fromSound,
    name: "openai-translations",
    path: "/v1/audio/translations",
  },
  "openai-realtime": {
    ...formatA,
    name: "openai-realtime",
    path: "/v1/realtime",
    // A session is priced by its time, or its responses by their tokens.
    measures: [["mediaMs"], ["inputTokens", "outputTokens", "audioInputTokens", "audioOutputTokens"]],
    requiredFields: ["model"],
    isOfSocket: true,
    readEnvelope: (body, model) => ({ ...embeddingsRequest.readEnvelope(body, model), answer: "events" }),
    ...metered(realtimeAnswers),
  },
};

// The paths of these formats are the same on the upstreams' side.
const withPath = (dialect: Omit<Dialect, "upstreamPath">): Dialect => ({
  ...dialect,
  upstreamPath: () => dialect.path,
});

/** Every wire format that callers speak, in one table. */
export const dialects = Object.fromEntries(
  Object.entries(table).map(([name, dialect]) => [name, withPath(dialect)]),
) as Record<DialectName, Dialect>;

/** Those of them in which calls are made by POST. */
export const httpDialects: readonly Dialect[] = Object.values(dialects).filter(({ isOfSocket }) => !isOfSocket);
