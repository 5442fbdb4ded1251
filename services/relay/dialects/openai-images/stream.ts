import { member, stringOf, type Cleaner, type Envelope, type EventVerdict, type StreamTap } from "../dialect.ts";
import type { Tally } from "../dialect.ts";
import { cleanEvent } from "../openai-shared/error.ts";
import type { StreamEvent } from "../sse.ts";
import { readUsage } from "./reply.ts";

/**
 * Watches a stream of images. It is whole when as many completed images have passed as were asked for. A partial image
 * is content too: the last one is nearly the image, and whoever leaves with it has been served.
 */
export function createTap({ units }: Envelope, clean: Cleaner): StreamTap {
  const wanted = units.images ?? 1n;
  let completed = 0n;
  const read = ({ json: parsed }: StreamEvent, tally: Tally): EventVerdict => {
    const type = stringOf(member(parsed, "type")) ?? "";
    if (type === "error" || member(parsed, "error")) {
      tally.isFailed = true;
      return cleanEvent(parsed, clean);
    }
    tally.hasContent ||= type.endsWith(".partial_image") || type.endsWith(".completed");
    if (!type.endsWith(".completed")) return "pass";
    completed += 1n;
    tally.counted.images = completed;
    tally.usage = readUsage(member(parsed, "usage")) ?? tally.usage;
    tally.hasFinish = true;
    tally.isComplete = completed >= wanted;
    return "pass";
  };
  return { read, end: () => "" };
}
