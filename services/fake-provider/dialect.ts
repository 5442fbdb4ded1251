/** Wire formats that the fake upstream speaks. */
export type FakeDialect =
  | "chat"
  | "messages"
  | "responses"
  | "compact"
  | "embeddings"
  | "completions"
  | "images"
  | "edits"
  | "speech"
  | "moderations"
  | "transcriptions"
  | "translations"
  | "gemini";

/** The path of every wire format but Gemini, which has the model in it (see `geminiEndpoint`). */
export const fakePaths: Record<Exclude<FakeDialect, "gemini">, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
  compact: "/v1/responses/compact",
  embeddings: "/v1/embeddings",
  completions: "/v1/completions",
  images: "/v1/images/generations",
  edits: "/v1/images/edits",
  speech: "/v1/audio/speech",
  moderations: "/v1/moderations",
  transcriptions: "/v1/audio/transcriptions",
  translations: "/v1/audio/translations",
};

/** What a path of Gemini says. */
export type GeminiEndpoint = { model: string; isStream: boolean; isEmbedding: boolean };

const geminiPath =
  /^\/v1beta\/(?:models|tunedModels)\/([^/:?]+):(generateContent|streamGenerateContent\?alt=sse|batchEmbedContents)$/;

/** Reads an address; undefined when it is none of Gemini. Streams are spoken as server-sent events only. */
export function geminiEndpoint(address: string): GeminiEndpoint | undefined {
  const [, model, method] = geminiPath.exec(address) ?? [];
  if (model === undefined) return undefined;
  return {
    model: decodeURIComponent(model),
    isStream: method?.startsWith("stream") ?? false,
    isEmbedding: method === "batchEmbedContents",
  };
}

/** The fields of a request; of a form, the text fields as strings and the file as a `FormFile`. */
export type Fields = Record<string, unknown>;

/** A file that came in a form. */
export type FormFile = { name: string; type: string; bytes: Buffer };

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
