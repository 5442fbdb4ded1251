import type { AnswerFormat, AnswerSink, ReadingContext } from "../answer.ts";
import { providers, upstreamDialects } from "../conversions.ts";
import type { Envelope, Tally, UpstreamDialectName } from "../dialect.ts";
import type { Quirk } from "../conversation.ts";
import { TallyFold } from "../fold-tally.ts";
import type { Reply, ReplyEvent } from "../reply.ts";
import { readWholeReply, ReplyShower } from "../show-reply.ts";
import { dialects } from "../index.ts";
import { readJsonBody } from "../json/request-body.ts";

/** A request for chat. */
export const envelopeOf = (fields: object = {}): Envelope =>
  dialects["openai-chat"].readEnvelope(readJsonBody(Buffer.from(JSON.stringify(fields))), "m");

/** How answers of a dialect of conversations are read. */
function answersOf(dialect: UpstreamDialectName): AnswerFormat {
  const answers = providers[dialect]?.answers;
  if (!answers) throw new Error(`${dialect} is no dialect of conversations`);
  return answers;
}

const context = (): ReadingContext => ({ envelope: envelopeOf() });

/** Reads a whole answer as it is shown to callers of other formats. */
export const replyReaderOf =
  (dialect: UpstreamDialectName) =>
  (body: unknown): Reply | undefined =>
    readWholeReply(answersOf(dialect), body, context(), ({ usage }) => usage)?.reply;

/** Reads a whole answer as it is charged. */
export const tallyReaderOf =
  (dialect: UpstreamDialectName) =>
  (body: unknown, quirks?: ReadonlySet<Quirk>): Tally | undefined =>
    upstreamDialects[dialect].readReply(body, envelopeOf(), quirks);

/** Reads a stream as it is shown to callers of other formats; a text stands for data that is not JSON (`[DONE]`). */
export function createShownReader(dialect: UpstreamDialectName) {
  const fold = new TallyFold();
  let events: ReplyEvent[] = [];
  const sink: AnswerSink = new ReplyShower(fold, {
    take: (event) => void events.push(event),
    usage: () => fold.tally.usage,
    error: (error) => error,
    unreadable: (message) => void events.push({ kind: "error", error: { message, type: undefined, code: undefined } }),
  });
  const reader = answersOf(dialect).createStreamReader(sink, context());
  const taken = (): ReplyEvent[] => {
    const found = events;
    events = [];
    return found;
  };
  return {
    tally: fold.tally,
    read: (data: unknown): ReplyEvent[] => {
      const isText = typeof data === "string";
      reader.read({ data: isText ? data : JSON.stringify(data), json: isText ? undefined : data });
      return taken();
    },
    end: (): ReplyEvent[] => {
      reader.end();
      return taken();
    },
  };
}
