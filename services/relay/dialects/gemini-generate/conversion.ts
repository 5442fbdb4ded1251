import type { ProviderConversion } from "../conversion.ts";
import { answers } from "./answers.ts";
import { addToGemini } from "../web-search.ts";
import { writeRequest } from "./write-request.ts";

export const provider: ProviderConversion = {
  writeRequest,
  addSearch: addToGemini,
  answers,
  // It reads none but its own and YouTube's (ai.google.dev/gemini-api/docs/file-input-methods).
  readsNoAddresses: true,
};
