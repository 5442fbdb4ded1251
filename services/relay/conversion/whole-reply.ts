import type { UnitLimits } from "../charge/possible-usage.ts";
import type { Quirk } from "../dialects/conversation.ts";
import type { Dialect, Envelope, Tally } from "../dialects/dialect.ts";
import { eventJson } from "../dialects/sse.ts";
import { convertReply } from "./convert.ts";
import type { Prepared } from "./prepare.ts";
import type { Binding } from "../threads/messages.ts";
import { IdSealer } from "./seal-ids.ts";

/** What a whole answer is read by. */
export type ReplyReading = {
  envelope: Envelope;
  /** The caller's. */
  dialect: Pick<Dialect, "rewriteReply" | "stateIdsOf">;
  prepared: Pick<Prepared, "dialect" | "conversion" | "single">;
  quirks: ReadonlySet<Quirk>;
  /** What the model can have used at most. */
  limits: UnitLimits;
  /** Of the upstream's answer. */
  contentType: string;
  /** Where ids in it are sealed. */
  binding?: Binding | undefined;
};

/** What is charged, and the answer as the caller gets it. */
export type WholeReply = { tally: Tally; body: Buffer; contentType: string };

/** A whole answer; without a reply it cannot be read, or is a refusal in the provider's words. */
export type ReadReply = { reply?: WholeReply | undefined; refusal?: string | undefined };

function replyOf(parsed: unknown, bytes: Buffer, reading: ReplyReading): WholeReply | undefined {
  const { envelope, prepared, dialect, quirks, limits, binding } = reading;
  const { conversion, single } = prepared;
  const contentType = envelope.answer === "json" ? "application/json" : reading.contentType;
  if (conversion) {
    const { asked } = conversion;
    const { tally, body } = convertReply(parsed, { conversion, asked, envelope, quirks, limits }) ?? {};
    return tally && body && { tally, body, contentType };
  }
  const tally = prepared.dialect.readReply(parsed, envelope, quirks);
  if (!tally) return undefined;
  if (!single) {
    const body = dialect.rewriteReply?.(parsed, envelope) ?? bytes;
    const sealed = binding && dialect.stateIdsOf && new IdSealer(binding).seal(body, dialect.stateIdsOf(parsed));
    return { tally, body: sealed ?? body, contentType };
  }
  const reply = single.conversion.writeReply(parsed, single.request, envelope);
  return reply && { tally, ...reply };
}

/** Reads a whole answer to a request. */
export function readReply(bytes: Buffer, reading: ReplyReading): ReadReply {
  const text = bytes.toString();
  const parsed = reading.envelope.answer === "text" ? text : eventJson(text);
  const reply = replyOf(parsed, bytes, reading);
  return reply ? { reply } : { refusal: reading.prepared.single?.conversion.refusalOf(parsed) };
}
