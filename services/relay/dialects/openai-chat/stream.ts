import { member, type Cleaner, type Envelope, type StreamTap } from "../dialect.ts";
import { createChunkTap } from "../openai-chunks.ts";
import { countContent } from "./reply.ts";

/** Watches a chat stream. */
export function createTap(envelope: Envelope, clean: Cleaner): StreamTap {
  return createChunkTap(envelope, clean, (choice, tally) => countContent(member(choice, "delta"), tally));
}
