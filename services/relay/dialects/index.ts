import type { Dialect, DialectName } from "./dialect.ts";
import * as messagesError from "./anthropic-messages/error.ts";
import * as messagesReply from "./anthropic-messages/reply.ts";
import * as messagesRequest from "./anthropic-messages/request.ts";
import * as messagesStream from "./anthropic-messages/stream.ts";
import * as chatError from "./openai-chat/error.ts";
import * as chatReply from "./openai-chat/reply.ts";
import * as chatRequest from "./openai-chat/request.ts";
import * as chatStream from "./openai-chat/stream.ts";

/** Every wire format of the relay, in one table. */
export const dialects: Record<DialectName, Dialect> = {
  "openai-chat": {
    name: "openai-chat",
    path: "/v1/chat/completions",
    requiredFields: ["model", "messages"],
    readEnvelope: chatRequest.readEnvelope,
    prepareBody: chatRequest.prepareBody,
    upstreamHeaders: chatRequest.upstreamHeaders,
    readReply: chatReply.readReply,
    createTap: chatStream.createTap,
    // API spec, Streaming that stops partway: a cut chat stream ends with [DONE] and no finish_reason.
    brokenStreamEnd: "data: [DONE]\n\n",
    writeError: chatError.writeError,
    readError: chatError.readError,
  },
  "anthropic-messages": {
    name: "anthropic-messages",
    path: "/v1/messages",
    requiredFields: ["model", "messages", "max_tokens"],
    readEnvelope: messagesRequest.readEnvelope,
    prepareBody: messagesRequest.prepareBody,
    upstreamHeaders: messagesRequest.upstreamHeaders,
    readReply: messagesReply.readReply,
    createTap: messagesStream.createTap,
    brokenStreamEnd: "",
    writeError: messagesError.writeError,
    readError: messagesError.readError,
  },
};
