import type { IncomingHttpHeaders } from "node:http";
import { checkInputs } from "../dialects/check-inputs.ts";
import { UnsayableError, type Target } from "../dialects/conversation.ts";
import type { Asked, ClientConversion, ProviderConversion, ReadRequest } from "../dialects/conversion.ts";
import type { SingleConversion, StreamReader } from "../dialects/conversion.ts";
import type { Cleaner, Envelope, EventVerdict, StreamTap, Tally, UpstreamError } from "../dialects/dialect.ts";
import type { ReplyEvent, ReplyUsage } from "../dialects/reply.ts";
import type { StreamEvent } from "../dialects/sse.ts";
import { CallFailure, failures } from "../failures.ts";
import { possibleUnits, type UnitLimits } from "../charge/possible-usage.ts";
import { createRetelling } from "./retell.ts";
import { codeWithin } from "./error-code.ts";

/** The two halves of a cell of the matrix: what the caller speaks and what the upstream speaks. */
export type Conversion = { client: ClientConversion; provider: ProviderConversion };

/** What a caller says, in no dialect, and the fields that already the reading could not carry. */
export type Understood = ReadRequest & { request: Record<string, unknown> };

/** A request in the upstream's words, and the caller's fields that got lost, by the caller's names. */
export type Converted = { body: Buffer; dropped: string[] };

const maxDetailLength = 1_000;

function refused<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof UnsayableError) {
      // A name of the caller's in it may be as long as a body.
      throw new CallFailure({ name: "field_invalid", detail: error.message.slice(0, maxDetailLength) });
    }
    // JSON within JSON, such as a call's arguments, may nest deeper than the engine can write.
    if (error instanceof RangeError) {
      throw new CallFailure({ name: "field_invalid", detail: "the request nests too deeply", cause: error });
    }
    throw error;
  }
}

/** Reads what a caller says. Throws `field_invalid` for what no other dialect could be asked. */
export function understand({ body }: Envelope, client: ClientConversion): Understood {
  const request = JSON.parse(body.bytes.toString()) as Record<string, unknown>;
  return refused(() => {
    const read = client.readRequest(request);
    checkInputs(read.conversation);
    return { ...read, request };
  });
}

/** Says it in the upstream's dialect. Throws `field_invalid` for what that dialect cannot be asked. */
export function say(
  { conversation, dropped }: Understood,
  { client, provider }: Conversion,
  target: Target,
): Converted {
  return refused(() => {
    const { body, losses } = provider.writeRequest(conversation, target);
    const names = [...dropped, ...[...losses].map((loss) => client.lossNames[loss])];
    return { body: Buffer.from(JSON.stringify(body)), dropped: [...new Set(names)] };
  });
}

/** A request of another kind than a conversation in the upstream's words. Throws `field_invalid`. */
export function saySingle(
  { body: { bytes } }: Envelope,
  conversion: SingleConversion,
  upstreamModel: string,
): Converted & { path: string; request: Record<string, unknown> } {
  const request = JSON.parse(bytes.toString()) as Record<string, unknown>;
  return refused(() => {
    const { path, body, dropped } = conversion.writeRequest(request, upstreamModel);
    return { path, body: Buffer.from(JSON.stringify(body)), dropped: [...dropped], request };
  });
}

/** What the caller is shown of the use is what is charged, in its own dialect's words: what cannot be is neither. */
function shownUsage(
  { usage, counted }: Tally,
  read: ReplyUsage | undefined,
  limits: UnitLimits,
): ReplyUsage | undefined {
  const told = usage ? { ...counted, ...usage } : read;
  return told && possibleUnits(told, limits);
}

/** A whole answer in the caller's dialect; undefined when the upstream's is none of its own. */
export function convertReply(
  body: unknown,
  { client, provider }: Conversion,
  { asked, tally, limits }: { asked: Asked; tally: Tally; limits: UnitLimits },
): Buffer | undefined {
  const reply = provider.readReply(body);
  if (!reply) return undefined;
  const usage = shownUsage(tally, reply.usage, limits);
  return Buffer.from(JSON.stringify(client.writeReply({ ...reply, usage }, asked)));
}

type Translating = {
  conversion: Conversion;
  asked: Asked;
  /** Watches the upstream's events; its tally is what is charged. */
  tap: StreamTap;
  clean: Cleaner;
  /** What the model can have used at most. */
  limits: UnitLimits;
};

/** For answers that break their own format where the upstream reports no error; callers see no words of a reader. */
const unreadable: UpstreamError = {
  message: failures.upstream_invalid.message,
  type: "api_error",
  code: failures.upstream_invalid.code,
};

/** A tap that gives a stream in the caller's dialect, event by event, in the turn in which the upstream's came. */
export function createTranslator({ conversion, asked, tap, clean, limits }: Translating): StreamTap {
  const reader: StreamReader = conversion.provider.createStreamReader();
  const writer = conversion.client.createStreamWriter(asked);
  const { createAlike } = tap;
  const { retelling, note } = createRetelling(reader, conversion.provider, writer);
  let held = "";
  const shown = (error: UpstreamError): UpstreamError => {
    const cleaned = clean(error);
    return { ...cleaned, code: codeWithin(cleaned) };
  };
  const tell = (events: ReplyEvent[], tally: Tally): string => {
    let text = "";
    for (const event of events) {
      if (event.kind === "finish") text += writer.write({ ...event, usage: shownUsage(tally, event.usage, limits) });
      else if (event.kind !== "error") text += writer.write(event);
      else text += writer.write({ kind: "error", error: tally.isFailed ? shown(event.error) : unreadable });
      // What cannot be read has failed for the ledger, too.
      tally.isFailed ||= event.kind === "error";
    }
    tally.isComplete &&= !tally.isFailed;
    return text;
  };
  const read = (event: StreamEvent, tally: Tally): EventVerdict => {
    const verdict = tap.read(event, tally);
    const told = event.json ?? event.data;
    const events = told === undefined ? [] : reader.read(told);
    note(events);
    const text = tell(events, tally);
    if (verdict === "end") {
      held = text;
      return "end";
    }
    return text === "" ? "drop" : Buffer.from(text);
  };
  const end = (tally: Tally): string => {
    if (tally.isFailed) return held;
    const last = tally.isComplete || tally.hasFinish ? reader.end() : undefined;
    // Where the upstream reported no error, what is missing was cut off.
    return last?.every(({ kind }) => kind !== "error") ? tell(last, tally) : conversion.client.cutEnd;
  };
  return createAlike && reader.takeDelta ? { read, end, createAlike, retelling } : { read, end };
}

/** Whether the caller wants a refusal instead of a request that lost something on the way. */
export function isStrict(headers: IncomingHttpHeaders): boolean {
  return headers["x-relay-strict"] === "true";
}
