import type { Model } from "../catalog/models.ts";
import type { Route } from "../catalog/choose.ts";
import { createPreparation, type Prepared, type RequestPreparation } from "./prepare.ts";
import { readReply, readTally, type ReplyReading } from "./whole-reply.ts";
import { countInputTokens } from "../charge/meter.ts";
import { clients, providers, upstreamDialects } from "../dialects/conversions.ts";
import { noCounts, type Envelope, type Tally } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { JsonDigest } from "../dialects/json/digest.ts";
import { singleConversionFor } from "../dialects/single-conversions.ts";
import { maxBodyBytes } from "../http/body.ts";
import { startCollecting } from "../http/collect-pieces.ts";
import { readEnvelope } from "../http/read.ts";
import { envelopeOfFacts, factsOf } from "../threads/facts.ts";
import type {
  HeaderFacts,
  ModelFacts,
  ReplyFacts,
  RouteFacts,
  Side,
  TallyResult,
  Work,
  WorkResults,
} from "../threads/messages.ts";
import { settingsOf } from "./settings.ts";

/** Result of a piece of work, and the memory that goes with it to the other thread. */
export type Done = { told: WorkResults[keyof WorkResults]; transfer: ArrayBuffer[] };

type Of<Kind extends Work["kind"]> = Extract<Work, { kind: Kind }>;

const alwaysRoom = { claim: () => true, release: () => undefined };

/** Bytes that nothing else needs in this thread. */
function give(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const isWhole = bytes.buffer instanceof ArrayBuffer && bytes.length === bytes.buffer.byteLength;
  return isWhole ? new Uint8Array(bytes.buffer as ArrayBuffer) : Uint8Array.from(bytes);
}

const tallyToTell = (tally: Tally): TallyResult => ({ tally, hasNoCounts: tally.usage === noCounts });

type ThreadRoute = Route & Pick<RouteFacts, "edits">;

/** Only what a preparation looks at. */
const routeOf = ({ spoken, model, edits }: RouteFacts): ThreadRoute =>
  ({ upstream: { dialects: spoken }, model, edits }) as unknown as ThreadRoute;

const editsFor = (route: Route): RouteFacts["edits"] => (route as ThreadRoute).edits;

/** The bytes of one call in a thread, and what is done with them there. */
export class SessionWork {
  private readonly collected = { request: startCollecting(maxBodyBytes), answer: startCollecting(maxBodyBytes) };
  private envelope: Envelope | undefined;
  private preparation: RequestPreparation | undefined;
  private prepared: Prepared | undefined;
  private digest: JsonDigest | undefined;

  add(side: Side, piece: Uint8Array): void {
    if (side === "answer" && this.digest) this.digest.add(piece);
    else this.collected[side].add(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
  }

  forget(): void {
    this.collected.request.drop();
    this.collected.answer.drop();
  }

  do(work: Work): Done {
    switch (work.kind) {
      case "read":
        return { told: factsOf(this.read(work)), transfer: [] };
      case "understand":
        return { told: this.preparationFor(work).addressesFor(work.routes.map(routeOf)), transfer: [] };
      case "prepare":
        return this.prepare(work);
      case "reply":
        return this.reply(work.reading);
      case "overflow":
        return this.overflow(work.isWanted);
      case "tally":
        return { told: this.tally(work.reading), transfer: [] };
    }
  }

  private read({ dialect, headers }: Pick<Of<"read">, "dialect" | "headers">): Envelope {
    return (this.envelope ??= readEnvelope(this.collected.request.whole(), dialects[dialect], headers));
  }

  private preparationFor(work: {
    dialect: Of<"read">["dialect"];
    headers: HeaderFacts;
    model: ModelFacts;
  }): RequestPreparation {
    if (this.preparation) return this.preparation;
    const envelope = this.read(work);
    const model = work.model as Model;
    const inputTokens = countInputTokens(envelope, model);
    const dialect = dialects[work.dialect];
    // The other thread has claimed the room.
    const share = () => alwaysRoom;
    return (this.preparation = createPreparation({ envelope, dialect, model, inputTokens, editsFor, share }));
  }

  private prepare(work: Of<"prepare">): Done {
    const preparation = this.preparationFor(work);
    if (work.fetched) preparation.embed(work.fetched);
    const prepared = (this.prepared = preparation.for(routeOf(work.route)));
    const { bytes } = this.read(work).body;
    const body = prepared.body === bytes && !work.isLast ? Uint8Array.from(bytes) : give(prepared.body);
    const { conversion, single, dropped, dialect } = prepared;
    const request = conversion?.asked.request && settingsOf(conversion.asked.request);
    const path = single && dialect.upstreamPath("", "json");
    if (work.isLast) this.forgetRequest(prepared.body === bytes, single !== undefined);
    return { told: { body, dropped, request, path }, transfer: [body.buffer] };
  }

  /** The bytes will not be asked for again; what an answer is read by stays. */
  private forgetRequest(isGivenAway: boolean, isReplyHere: boolean): void {
    if (!isGivenAway) this.collected.request.drop();
    this.envelope = this.preparation = undefined;
    if (!isReplyHere) this.prepared = undefined;
  }

  private reply(reading: ReplyFacts): Done {
    const { reply, refusal, tally: refused } = readReply(this.collected.answer.whole(), this.readingOf(reading));
    if (!reply) return { told: { refusal, refused: refused && tallyToTell(refused) }, transfer: [] };
    const { tally, contentType } = reply;
    const body = give(reply.body);
    return { told: { reply: { ...tallyToTell(tally), body, contentType } }, transfer: [body.buffer] };
  }

  private overflow(isWanted: boolean): Done {
    const bytes = this.collected.answer.whole();
    this.digest = new JsonDigest();
    this.digest.add(bytes);
    if (isWanted && !this.digest.isBroken) {
      const kept = give(bytes);
      return { told: { kept }, transfer: [kept.buffer] };
    }
    this.collected.answer.drop();
    return { told: this.digest.isBroken ? undefined : { kept: new Uint8Array() }, transfer: [] };
  }

  private tally(reading: ReplyFacts): WorkResults["tally"] {
    const likeness = this.digest?.end();
    const tally = likeness && readTally(likeness, this.readingOf(reading));
    return tally && tallyToTell(tally);
  }

  private readingOf(reading: ReplyFacts): ReplyReading {
    const { dialect, spoken, asked } = reading;
    const request = reading.single && (this.prepared?.single?.request ?? reading.single.request);
    const envelope = envelopeOfFacts(reading.facts, request?.["input"]);
    const upstream = upstreamDialects[spoken];
    const [client, provider] = [clients[dialect], providers[spoken]];
    const conversion = asked && client && provider && { client, provider, asked };
    const cell = request && singleConversionFor(dialect, [spoken]);
    const single = cell && request && { conversion: cell.conversion, request };
    const prepared = single
      ? { dialect: { ...upstream, readReply: single.conversion.readReply }, conversion: undefined, single }
      : { dialect: upstream, conversion };
    return { ...reading, envelope, dialect: dialects[dialect], prepared };
  }
}
