import { member, stringOf, type Cleaner, type Envelope, type EventVerdict } from "../dialect.ts";
import type { StreamTap, Tally } from "../dialect.ts";
import { cleanEvent } from "../openai-shared/error.ts";
import type { StreamEvent } from "../sse.ts";
import { countText, readUsage } from "./reply.ts";

/** Watches a streamed transcript, which is whole at transcript.text.done. */
export function createTap(_envelope: Envelope, clean: Cleaner): StreamTap {
  const read = ({ json: parsed }: StreamEvent, tally: Tally): EventVerdict => {
    const type = stringOf(member(parsed, "type"));
    if (type === "error" || member(parsed, "error")) {
      tally.isFailed = true;
      return cleanEvent(parsed, clean);
    }
    if (type === "transcript.text.delta") countText(stringOf(member(parsed, "delta")) ?? "", tally);
    if (type !== "transcript.text.done") return "pass";
    tally.usage = readUsage(member(parsed, "usage"));
    tally.hasContent = true;
    tally.hasFinish = true;
    tally.isComplete = true;
    return "pass";
  };
  return { read, end: () => "" };
}
