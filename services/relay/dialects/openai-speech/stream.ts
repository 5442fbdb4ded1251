import type { Units } from "#shared/money/pricing.ts";
import { countOf, member, readCounts, stringOf, type Cleaner, type Envelope, type EventVerdict } from "../dialect.ts";
import type { StreamTap, Tally } from "../dialect.ts";
import { cleanEvent } from "../openai-shared/error.ts";
import type { StreamEvent } from "../sse.ts";

/** Sound that passes as bytes: any of it is content, and only the upstream's own end tells that it is whole. */
const bytesTap: StreamTap = {
  read: (_bytes, tally) => {
    tally.hasContent = true;
    tally.hasFinish = true;
    return "pass";
  },
  end: () => "",
};

function readUsage(usage: unknown): Units | undefined {
  const inputTokens = countOf(member(usage, "input_tokens"));
  const audioOutputTokens = countOf(member(usage, "output_tokens"));
  return inputTokens + audioOutputTokens > 0n ? { inputTokens, audioOutputTokens } : undefined;
}

function createEventTap(clean: Cleaner): StreamTap {
  const read = ({ json: parsed }: StreamEvent, tally: Tally): EventVerdict => {
    const type = stringOf(member(parsed, "type"));
    if (type === "error" || member(parsed, "error")) {
      tally.isFailed = true;
      return cleanEvent(parsed, clean);
    }
    tally.hasContent ||= type === "speech.audio.delta";
    if (type !== "speech.audio.done") return "pass";
    tally.usage = readCounts(readUsage, member(parsed, "usage"));
    tally.hasFinish = true;
    tally.isComplete = true;
    return "pass";
  };
  return { read, end: () => "" };
}

/** Watches speech, as bytes or as events. */
export function createTap({ answer }: Envelope, clean: Cleaner): StreamTap {
  return answer === "bytes" ? bytesTap : createEventTap(clean);
}
