import { hash } from "node:crypto";
import type { Command, Redis } from "ioredis";

// The client's own way of writing a command makes texts and buffers of each argument; a run of the money script has
// thousands of arguments a second. So the bytes of a run are written here at once, and only sent by the client.
// Nor is a run one of the client's own commands: those, with all that they answered, outlived the collections of young
// objects, which cost more than the runs themselves.

/** What a run is given: texts, and bytes as they are. */
export type RunValues = readonly (string | Buffer)[];

/** What a run answers: numbers, and texts, as bytes from a real Redis. */
export type RunAnswer = (number | string | Buffer)[];

/**
 * Runs a script with one key. Runs reach Redis in the order in which they are asked for, but for those that find it
 * without the script: they are sent again with it, behind what was asked for meanwhile.
 */
export function createRunner(redis: Redis, script: string): (key: string, values: RunValues) => Promise<RunAnswer> {
  const sha = hash("sha1", script);
  return async (key, values) => {
    try {
      return await send(redis, ["evalsha", sha, "1", key], values);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return send(redis, ["eval", script, "1", key], values);
    }
  };
}

function send(redis: Redis, head: readonly [name: string, ...rest: string[]], values: RunValues): Promise<RunAnswer> {
  const run = new Run(head[0], encodeCommand(head, values));
  return redis.sendCommand(run as unknown as Command) as Promise<RunAnswer>;
}

/** A run on its way: as much of a command as the client asks for. */
class Run {
  readonly name: string;
  readonly args: readonly string[] = [];
  /** The client reports its commands to tracers unless they are marked as reported. */
  readonly isTraced = true;
  readonly promise: Promise<RunAnswer>;
  private readonly bytes: Buffer;
  private readonly answer = Promise.withResolvers<RunAnswer>();
  private timer: NodeJS.Timeout | undefined = undefined;

  constructor(name: string, bytes: Buffer) {
    this.name = name;
    this.bytes = bytes;
    this.promise = this.answer.promise;
  }

  toWritable(): Buffer {
    return this.bytes;
  }

  /** Its answers are the same in all versions of the protocol. */
  setReplyContext(): void {}

  setTimeout(ms: number): void {
    this.timer ??= setTimeout(rejectLate, ms, this);
  }

  resolve(reply: RunAnswer): void {
    clearTimeout(this.timer);
    this.answer.resolve(reply);
  }

  reject(error: Error): void {
    clearTimeout(this.timer);
    this.answer.reject(error);
  }
}

const rejectLate = (run: Run): void => run.reject(new Error("Command timed out"));

const slabBytes = 262_144;
// Of an argument: "$", up to ten digits, and two ends of lines.
const maxFraming = 15;
const maxBytesPerUnit = 3;

// What lies before `at` belongs to commands that were made before, and may still be on their way out.
let slab = Buffer.allocUnsafeSlow(slabBytes);
let at = 0;

/** A command as Redis reads it: an array of bulk strings. */
export function encodeCommand(head: readonly string[], values: RunValues): Buffer {
  let most = maxFraming;
  for (const value of head) most += maxFraming + maxBytesPerUnit * value.length;
  for (const value of values) most += maxFraming + maxBytesPerUnit * value.length;
  if (at + most > slab.length) {
    slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, most));
    at = 0;
  }
  const from = at;
  // Where writing goes on is handed from one to the next: a variable of the module is written to memory each time.
  let end = writeLength(slab, from, 0x2a, head.length + values.length);
  for (const value of head) end = writeText(slab, end, value);
  for (const value of values) {
    end = typeof value === "string" ? writeText(slab, end, value) : writeBytes(slab, end, value);
  }
  at = end;
  return slab.subarray(from, end);
}

function writeLineEnd(target: Buffer, end: number): number {
  target[end] = 13;
  target[end + 1] = 10;
  return end + 2;
}

function writeLength(target: Buffer, from: number, mark: number, length: number): number {
  target[from] = mark;
  let end = from + 1;
  let power = 1;
  while (power * 10 <= length) power *= 10;
  for (let rest = length; power >= 1; power = (power / 10) | 0) {
    const digit = (rest / power) | 0;
    target[end++] = 48 + digit;
    rest -= digit * power;
  }
  return writeLineEnd(target, end);
}

function writeBytes(target: Buffer, from: number, value: Buffer): number {
  const end = writeLength(target, from, 0x24, value.length);
  target.set(value, end);
  return writeLineEnd(target, end + value.length);
}

// Up to about this length a loop is faster than a call into the runtime.
const shortText = 64;

function writeText(target: Buffer, from: number, value: string): number {
  const { length } = value;
  if (length <= shortText) {
    const end = writeLength(target, from, 0x24, length);
    let index = 0;
    for (; index < length; index += 1) {
      const code = value.charCodeAt(index);
      if (code > 0x7f) break;
      target[end + index] = code;
    }
    if (index === length) return writeLineEnd(target, end + length);
  }
  const end = writeLength(target, from, 0x24, Buffer.byteLength(value));
  return writeLineEnd(target, end + target.write(value, end));
}
