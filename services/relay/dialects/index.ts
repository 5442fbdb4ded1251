import type { Dialect, DialectName, Envelope, StreamTap } from "./dialect.ts";
import * as messagesError from "./anthropic-messages/error.ts";
import * as messagesReply from "./anthropic-messages/reply.ts";
import * as messagesRequest from "./anthropic-messages/request.ts";
import * as messagesStream from "./anthropic-messages/stream.ts";
import { chatMedia, messagesMedia, moderationsMedia, noMedia, responsesMedia } from "./json/media-places.ts";
import * as chatError from "./openai-shared/error.ts";
import * as chatReply from "./openai-chat/reply.ts";
import * as chatRequest from "./openai-chat/request.ts";
import * as chatStream from "./openai-chat/stream.ts";
import * as completionsReply from "./openai-completions/reply.ts";
import * as completionsRequest from "./openai-completions/request.ts";
import * as completionsStream from "./openai-completions/stream.ts";
import * as embeddingsReply from "./openai-embeddings/reply.ts";
import * as embeddingsRequest from "./openai-embeddings/request.ts";
import * as imagesReply from "./openai-images/reply.ts";
import * as imagesRequest from "./openai-images/request.ts";
import * as imagesStream from "./openai-images/stream.ts";
import * as moderationsReply from "./openai-moderations/reply.ts";
import * as responsesReply from "./openai-responses/reply.ts";
import * as responsesRequest from "./openai-responses/request.ts";
import * as responsesStream from "./openai-responses/stream.ts";
import * as speechRequest from "./openai-speech/request.ts";
import * as speechStream from "./openai-speech/stream.ts";
import * as transcriptionsReply from "./openai-transcriptions/reply.ts";
import * as transcriptionsRequest from "./openai-transcriptions/request.ts";
import * as transcriptionsStream from "./openai-transcriptions/stream.ts";

/** The caller's body with the upstream's model name and nothing else changed. */
function replaceModel({ body, model }: Envelope, upstreamModel: string): Buffer {
  return upstreamModel === model ? body.bytes : body.rewrite({ replace: { model: JSON.stringify(upstreamModel) } });
}

function replaceModelInForm({ body, model }: Envelope, upstreamModel: string): Buffer {
  return upstreamModel === model ? body.bytes : body.rewrite({ replace: { model: upstreamModel } });
}

/** For dialects that never stream. */
const noTap = (): StreamTap => ({ read: () => "pass", end: () => "" });
const noReply = (): undefined => undefined;

const formatA = {
  format: "A",
  isConversation: false,
  takesForm: false,
  arrayFields: [],
  mediaPlaces: noMedia,
  upstreamHeaders: chatRequest.upstreamHeaders,
  prepareBody: replaceModel,
  createTap: noTap,
  writeError: chatError.writeError,
  readError: chatError.readError,
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
    readEnvelope: chatRequest.readEnvelope,
    prepareBody: chatRequest.prepareBody,
    readReply: chatReply.readReply,
    createTap: chatStream.createTap,
  },
  "openai-responses": {
    ...formatA,
    name: "openai-responses",
    path: "/v1/responses",
    isConversation: true,
    measures: textMeasures,
    requiredFields: ["model"],
    mediaPlaces: responsesMedia,
    readEnvelope: responsesRequest.readEnvelope,
    prepareBody: responsesRequest.prepareBody,
    readReply: responsesReply.readReply,
    createTap: responsesStream.createTap,
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
    takesForm: false,
    readEnvelope: messagesRequest.readEnvelope,
    prepareBody: messagesRequest.prepareBody,
    upstreamHeaders: messagesRequest.upstreamHeaders,
    readReply: messagesReply.readReply,
    createTap: messagesStream.createTap,
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
    readEnvelope: responsesRequest.readCompactEnvelope,
    prepareBody: responsesRequest.prepareBody,
    readReply: responsesReply.readReply,
  },
  "openai-embeddings": {
    ...formatA,
    name: "openai-embeddings",
    path: "/v1/embeddings",
    measures: [["inputTokens"]],
    requiredFields: ["model", "input"],
    readEnvelope: embeddingsRequest.readEnvelope,
    readReply: embeddingsReply.readReply,
    rewriteReply: embeddingsReply.rewriteReply,
  },
  "openai-completions": {
    ...formatA,
    name: "openai-completions",
    path: "/v1/completions",
    measures: textMeasures,
    requiredFields: ["model", "prompt"],
    readEnvelope: completionsRequest.readEnvelope,
    prepareBody: chatRequest.prepareBody,
    readReply: completionsReply.readReply,
    createTap: completionsStream.createTap,
  },
  "openai-images": {
    ...formatA,
    name: "openai-images",
    path: "/v1/images/generations",
    measures: [["images"], ["inputTokens", "imageOutputTokens"]],
    requiredFields: ["model", "prompt"],
    readEnvelope: imagesRequest.readEnvelope,
    readReply: imagesReply.readReply,
    createTap: imagesStream.createTap,
  },
  "openai-speech": {
    ...formatA,
    name: "openai-speech",
    path: "/v1/audio/speech",
    measures: [["characters"], ["inputTokens", "audioOutputTokens"]],
    requiredFields: ["model", "input", "voice"],
    readEnvelope: speechRequest.readEnvelope,
    readReply: noReply,
    createTap: speechStream.createTap,
  },
  "openai-moderations": {
    ...formatA,
    name: "openai-moderations",
    path: "/v1/moderations",
    measures: [["requests"], ["inputTokens"]],
    requiredFields: ["model", "input"],
    mediaPlaces: moderationsMedia,
    readEnvelope: embeddingsRequest.readEnvelope,
    readReply: moderationsReply.readReply,
  },
  "openai-transcriptions": {
    ...formatA,
    name: "openai-transcriptions",
    path: "/v1/audio/transcriptions",
    measures: [["mediaMs"], ["audioInputTokens", "outputTokens"]],
    requiredFields: ["model", "file"],
    takesForm: true,
    mayIgnoreStream: true,
    readEnvelope: transcriptionsRequest.readEnvelope,
    prepareBody: replaceModelInForm,
    readReply: transcriptionsReply.readReply,
    createTap: transcriptionsStream.createTap,
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
