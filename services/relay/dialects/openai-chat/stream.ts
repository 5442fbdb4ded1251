import type { Quirk } from "../conversation.ts";
import { member, type Cleaner, type Envelope, type StreamTap, type Tally } from "../dialect.ts";
import { createChunkTap } from "../openai-shared/chunks.ts";
import { countingOf } from "../openai-shared/usage.ts";
import { countContent } from "./reply.ts";

/** Watches a chat stream. */
export function createTap(envelope: Envelope, clean: Cleaner, quirks?: ReadonlySet<Quirk>): StreamTap {
  const countChoice = (choice: unknown, tally: Tally): void => countContent(member(choice, "delta"), tally);
  return createChunkTap(envelope, clean, { countChoice, counting: countingOf(quirks) });
}
