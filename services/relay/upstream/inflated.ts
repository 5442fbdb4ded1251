import type { Transform } from "node:stream";
import { createInflater, encodingOf, isBomb } from "../http/inflate.ts";
import { Flow } from "./flow.ts";
import type { Answer, SentAnswer } from "./send.ts";

/**
 * The same answer, inflated where its provider has encoded it though asked not to: it was made, and is billed. One in
 * an encoding that is unknown stays as it is, by its head.
 */
export function inflated(answer: SentAnswer): SentAnswer {
  const encoding = encodingOf(String(answer.headers["content-encoding"] ?? ""));
  const inflater = encoding === undefined ? undefined : createInflater(encoding);
  return inflater ? new InflatedAnswer(answer, inflater) : answer;
}

// Some say that they encode and do not. None of the encodings begins with these: of Brotli's streams only an empty one
// begins with a brace (RFC 7932, 9.2).
const plainStarts = ["{", "data:", "event:"];

const isPlain = (start: Buffer): boolean =>
  plainStarts.some((text) => start.toString("latin1", 0, text.length) === text);

/**
 * An answer on its way through an inflater, or beside it where it is not encoded after all. What had come when it broke
 * off is given before it breaks.
 */
class InflatedAnswer extends Flow implements Answer {
  readonly status: number;
  readonly headers: Answer["headers"];
  private readonly answer: Answer;
  private readonly inflater: Transform;
  private wireBytes = 0;
  private bytes = 0;
  private failed: Error | undefined;
  private isPaused = false;
  private hasCome = false;
  private isOver = false;
  private isBeside = false;

  constructor(answer: Answer, inflater: Transform) {
    super();
    this.answer = answer;
    this.inflater = inflater;
    this.status = answer.status;
    const { "content-encoding": _encoding, "content-length": _length, ...headers } = answer.headers;
    this.headers = headers;
    inflater.on("data", (piece: Buffer) => this.take(piece));
    inflater.on("drain", () => this.goOn());
    inflater.once("end", () => this.close());
    inflater.on("error", (error) => this.stop(error));
    answer.consume({
      data: (chunk) => this.push(chunk),
      end: () => this.endInput(),
      fail: (error) => this.endInput(error),
    });
  }

  pause(): void {
    this.isPaused = true;
    this.answer.pause();
    this.inflater.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.goOn();
    this.inflater.resume();
  }

  abort(): void {
    this.stop(new Error("the answer is not wanted any more"));
  }

  private push(chunk: Buffer): void {
    if (this.isOver) return;
    this.isBeside ||= this.wireBytes === 0 && isPlain(chunk);
    this.wireBytes += chunk.length;
    if (this.isBeside) return this.give(chunk);
    if (!this.inflater.write(chunk)) this.answer.pause();
  }

  private take(piece: Buffer): void {
    this.bytes += piece.length;
    if (isBomb(this.bytes, this.wireBytes)) return this.stop(new Error("the answer inflates too far"));
    this.give(piece);
  }

  private goOn(): void {
    if (this.isPaused || this.isOver) return;
    if (this.hasCome) this.endInflater();
    else if (!this.inflater.writableNeedDrain) this.answer.resume();
  }

  /** Nothing more comes. What breaks off fails the inflater, and that takes from a reader who pauses what it holds. */
  private endInput(error?: Error): void {
    this.failed = error;
    this.hasCome = true;
    this.goOn();
  }

  private endInflater(): void {
    if (!this.isBeside) return void this.inflater.end();
    this.inflater.destroy();
    this.close();
  }

  private close(): void {
    if (this.isOver) return;
    this.isOver = true;
    if (this.failed) this.break(this.failed);
    else this.finish();
  }

  /** Ends it at once; that the answer which is inflated fails by that is not why. */
  private stop(error: Error): void {
    if (this.isOver) return;
    this.failed ??= error;
    this.inflater.destroy();
    this.close();
    this.answer.abort();
  }
}
