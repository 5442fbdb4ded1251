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

/** An answer on its way through an inflater. What had come when it broke off is given before it breaks. */
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
    this.wireBytes += chunk.length;
    if (!this.inflater.write(chunk)) this.answer.pause();
  }

  private take(piece: Buffer): void {
    this.bytes += piece.length;
    if (isBomb(this.bytes, this.wireBytes)) return this.stop(new Error("the answer inflates too far"));
    this.give(piece);
  }

  private goOn(): void {
    if (this.isPaused || this.isOver) return;
    if (this.hasCome) this.inflater.end();
    else if (!this.inflater.writableNeedDrain) this.answer.resume();
  }

  /** Nothing more comes. What breaks off fails the inflater, and that takes from a reader who pauses what it holds. */
  private endInput(error?: Error): void {
    this.failed = error;
    this.hasCome = true;
    this.goOn();
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
