import type { Cleaner, Envelope, StreamTap } from "../dialect.ts";
import { createChunkTap } from "../openai-shared/chunks.ts";
import { countChoice } from "./reply.ts";

/** Watches a streamed text completion. */
export function createTap(envelope: Envelope, clean: Cleaner): StreamTap {
  return createChunkTap(envelope, clean, { countChoice });
}
