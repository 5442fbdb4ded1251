import type { SingleConversion } from "./conversion.ts";
import type { DialectName, UpstreamDialectName } from "./dialect.ts";
import * as embeddings from "./gemini-generate/embeddings.ts";
import * as images from "./gemini-generate/images.ts";
import { refusalOf } from "./gemini-generate/media-call.ts";
import * as speech from "./gemini-generate/speech.ts";
import { rewriteReply } from "./openai-embeddings/rewrite-reply.ts";

const jsonOf = (reply: unknown) => ({ body: Buffer.from(JSON.stringify(reply)), contentType: "application/json" });

/** Dialects, none of a conversation, whose callers reach models that speak gemini-generate. */
const ofGemini: Partial<Record<DialectName, SingleConversion>> = {
  "openai-embeddings": {
    writeRequest: embeddings.writeEmbeddings,
    readReply: (answer, { body }) => embeddings.readTally(answer, body.readWhole("input")),
    writeReply: (answer, request, envelope) => {
      const list = embeddings.readEmbeddings(answer, request, envelope.model);
      if (!list) return undefined;
      const body = rewriteReply(list, envelope);
      return body ? { body, contentType: "application/json" } : jsonOf(list);
    },
    refusalOf,
  },
  "openai-images": {
    writeRequest: images.writeImage,
    readReply: images.readTally,
    writeReply: (answer) => {
      const list = images.readImages(answer, Math.floor(Date.now() / 1_000));
      return list && jsonOf(list);
    },
    refusalOf,
  },
  "openai-speech": {
    writeRequest: speech.writeSpeech,
    readReply: speech.readTally,
    writeReply: (answer, request) => {
      const sound = speech.readSpeech(answer, request);
      return sound && { body: sound.bytes, contentType: sound.contentType };
    },
    refusalOf,
  },
};

/** A conversion, and the dialect of the upstream that it leads to. */
export type SingleCell = { conversion: SingleConversion; spoken: UpstreamDialectName };

/** How a request that is no conversation reaches an upstream that speaks these dialects. */
export function singleConversionFor(dialect: DialectName, spoken: readonly string[]): SingleCell | undefined {
  const conversion = spoken.includes("gemini-generate") ? ofGemini[dialect] : undefined;
  return conversion && { conversion, spoken: "gemini-generate" };
}
