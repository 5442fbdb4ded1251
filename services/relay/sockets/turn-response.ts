import { Writable } from "node:stream";
import { member, stringOf } from "../dialects/dialect.ts";
import { eventData, eventEnd, eventJson } from "../dialects/sse.ts";
import { failures } from "../failures.ts";
import type { CallResponse } from "../http/exchange.ts";
import { errorEvent, previousNotFound } from "./error-event.ts";

/** A response that a later turn can continue. */
export type EndedResponse = { id: string; items: string[] };

export type TurnSink = {
  streamId: string | undefined;
  previousId: string | undefined;
  /** The id of a response to continue that is not kept here. */
  missingId: string | undefined;
  /** Whether the caller did not say that the response shall not be stored. */
  mayStore: boolean;
  /** Sends a frame of each text; `sent` is called when the connection has taken them. */
  send: (texts: string[], sent: () => void) => void;
  /** Called before the frame that ends the response goes out. */
  onEnded: (ended: EndedResponse) => void;
  /** Called where HTTP would break the connection off. */
  onBroken: () => void;
};

const finals = new Set(["response.completed", "response.incomplete", "response.failed", "error"]);
// Within a text, quotes are escaped, so that this is met in no text.
const readTypes = /"type":\s*"(?:response\.(?:output_item\.done|completed|incomplete|failed)|error)"/;
const noPrevious = /"previous_response_id":\s*null/;
const maxErrorBytes = 1_048_576;

/** Of an answer that ended without saying how. */
const cutShort = { type: "api_error", code: "server_error", message: failures.upstream_unreachable.message, param: "" };

/** Reasoning that neither shows nor can be given back; it is of use only where it is stored. */
function isLost(item: unknown): boolean {
  const [content, summary] = [member(item, "content"), member(item, "summary")];
  const isEmpty = (list: unknown): boolean => !Array.isArray(list) || list.length === 0;
  const isSilent = !member(item, "encrypted_content") && isEmpty(content) && isEmpty(summary);
  return member(item, "type") === "reasoning" && isSilent;
}

function withoutId(item: unknown): unknown {
  const { id: _id, ...rest } = item as Record<string, unknown>;
  return rest;
}

/** Items as the next turn brings them along: an id means something only where the response was stored. */
function itemsToSend(items: readonly unknown[], isStored: boolean): string[] {
  const kept = isStored ? items : items.filter((item) => !isLost(item)).map(withoutId);
  return kept.map((item) => JSON.stringify(item));
}

const isOfPrevious = (error: unknown): boolean =>
  stringOf(member(error, "message"))?.includes("previous_response_id") === true;

/**
 * The answer to a turn: what a call writes as events of HTTP goes out as frames of the socket, each as soon as it is
 * whole. It is full, as any stream, while the connection has not taken what was written.
 */
export class TurnResponse extends Writable implements CallResponse {
  statusCode = 200;
  headersSent = false;
  shouldKeepAlive = true;
  readonly chunkedEncoding = false;
  readonly socket = null;
  readonly ["req"] = { complete: true, resume: () => this["req"] } as unknown as CallResponse["req"];
  private readonly sink: TurnSink;
  private headers: Record<string, string | number> = {};
  private rest = Buffer.alloc(0);
  private errorBody: Buffer[] = [];
  private errorBytes = 0;
  private items: unknown[] = [];
  private isStarted = false;
  private isOver = false;

  constructor(sink: TurnSink) {
    super({ decodeStrings: true });
    this.sink = sink;
  }

  setHeader(): void {
    // Nothing of a connection is a turn's to say.
  }

  writeHead(status: number, headers: Record<string, string | number>): this {
    this.statusCode = status;
    this.headers = headers;
    this.headersSent = true;
    return this;
  }

  writeContinue(): void {
    // The body is here.
  }

  flushHeaders(): void {
    // They go with the first event.
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    if (this.isEvents()) return this.sendEvents(chunk, () => done());
    this.errorBytes += chunk.length;
    if (this.errorBytes <= maxErrorBytes) this.errorBody.push(chunk);
    done();
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "", done);
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.isOver) return done();
    this.isOver = true;
    this.sink.send([this.isEvents() ? this.cutEvent() : this.refusal()], () => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.writableFinished) this.sink.onBroken();
    done(error);
  }

  private isEvents(): boolean {
    return String(this.headers["content-type"] ?? "").startsWith("text/event-stream");
  }

  private cutEvent(): string {
    return errorEvent({ status: 500, error: cutShort, headers: this.shownHeaders(), streamId: this.sink.streamId });
  }

  private refusal(): string {
    const body = eventJson(Buffer.concat(this.errorBody).toString());
    const status = this.statusCode === 200 ? 502 : this.statusCode;
    const { missingId } = this.sink;
    const told = member(body, "error") ?? cutShort;
    // Models of other providers store nothing; by this code clients send all of the conversation.
    const isMissing = missingId !== undefined && status === 400 && isOfPrevious(told);
    const error = isMissing ? previousNotFound(missingId) : told;
    return errorEvent({ status, error, headers: this.shownHeaders(), streamId: this.sink.streamId });
  }

  /** What callers over HTTP read in the head. */
  private shownHeaders(): Record<string, string> {
    const names = ["x-request-id", "x-relay-dropped", "retry-after", "x-should-retry"];
    const given = names.filter((name) => this.headers[name] !== undefined);
    return Object.fromEntries(given.map((name) => [name, String(this.headers[name])]));
  }

  private sendEvents(chunk: Buffer, done: () => void): void {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const frames: string[] = [];
    let start = 0;
    for (let end = eventEnd(bytes, 0, 0); end !== -1; end = eventEnd(bytes, start, start)) {
      const data = eventData(bytes.subarray(start, end));
      start = end;
      if (data?.startsWith("{")) frames.push(this.frameOf(data));
    }
    this.rest = Buffer.from(bytes.subarray(start));
    if (frames.length === 0) return done();
    this.sink.send(frames, done);
  }

  private frameOf(data: string): string {
    let text = data;
    if (readTypes.test(text)) this.read(text);
    const { streamId, previousId } = this.sink;
    if (previousId !== undefined && noPrevious.test(text)) {
      text = text.replace(noPrevious, () => `"previous_response_id":${JSON.stringify(previousId)}`);
    }
    let added = streamId === undefined ? "" : `"stream_id":${JSON.stringify(streamId)},`;
    if (!this.isStarted) added += `"headers":${JSON.stringify(this.shownHeaders())},`;
    this.isStarted = true;
    return added === "" ? text : `{${added}${text.slice(1)}`;
  }

  private read(text: string): void {
    const event = eventJson(text);
    const type = stringOf(member(event, "type")) ?? "";
    if (type === "response.output_item.done") this.items.push(member(event, "item"));
    if (!finals.has(type)) return;
    this.isOver = true;
    if (type !== "response.completed" && type !== "response.incomplete") return;
    const response = member(event, "response");
    const id = stringOf(member(response, "id"));
    if (!id) return;
    const output = member(response, "output");
    const items: unknown[] = Array.isArray(output) && output.length > 0 ? output : this.items;
    this.sink.onEnded({ id, items: itemsToSend(items, this.sink.mayStore && member(response, "store") !== false) });
  }
}
