import type { ProviderConversion } from "../conversion.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";
import { writeRequest } from "./write-request.ts";

export const provider: ProviderConversion = {
  writeRequest,
  readReply,
  createStreamReader,
  // It reads none but its own and YouTube's (ai.google.dev/gemini-api/docs/file-input-methods).
  readsNoAddresses: true,
};
