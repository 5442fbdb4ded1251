import { namelessError, type AnswerFormat } from "./answer.ts";
import type { EventVerdict, StreamTap, Tally, UpstreamDialect } from "./dialect.ts";
import { TallyFold } from "./fold-tally.ts";
import type { StreamEvent } from "./sse.ts";

/** Meters whole answers of a format. */
const meterReply =
  ({ readReply }: AnswerFormat): UpstreamDialect["readReply"] =>
  (body, envelope, quirks) => {
    const fold = new TallyFold();
    return readReply(body, fold, { envelope, quirks }) ? fold.tally : undefined;
  };

/** Meters streams of a format that pass untouched but for what its passing says. */
const tapOf = (format: AnswerFormat): UpstreamDialect["createTap"] => {
  const { createStreamReader, createPassing, isTextPlain } = format;
  const createTap: UpstreamDialect["createTap"] = (envelope, clean, quirks) => {
    const fold = new TallyFold();
    const reader = createStreamReader(fold, { envelope, quirks });
    const { note, onCounts = "pass", onError, end = () => "" } = createPassing(envelope, clean);
    const read = (event: StreamEvent, tally: Tally): EventVerdict => {
      fold.tally = tally;
      note?.(event);
      const kind = reader.read(event);
      if (kind === undefined) return "pass";
      return kind === "counts" ? onCounts : onError(event, fold.reported ?? namelessError);
    };
    const tap: StreamTap = { read, end };
    return isTextPlain ? { ...tap, createAlike: () => createTap(envelope, clean, quirks) } : tap;
  };
  return createTap;
};

/** How answers of a format are metered, whole and streamed. */
export const metered = (format: AnswerFormat): Pick<UpstreamDialect, "readReply" | "createTap"> => ({
  readReply: meterReply(format),
  createTap: tapOf(format),
});
