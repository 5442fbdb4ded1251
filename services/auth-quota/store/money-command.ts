import { hash } from "node:crypto";
import { Command, type Redis } from "ioredis";

// The client's own way of writing a command makes texts and buffers of each argument; a run of the money script has
// thousands of arguments a second. So the bytes of a run are written here at once, and only sent by the client.

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
  const command = new Command(head[0], []);
  const bytes = encodeCommand(head, values);
  command.toWritable = () => bytes;
  return redis.sendCommand(command) as Promise<RunAnswer>;
}

const slabBytes = 262_144;
// Of an argument: "$", up to ten digits, and two ends of lines.
const mostFraming = 15;
const mostBytesPerUnit = 3;

// What lies before `at` belongs to commands that were made before, and may still be on their way out.
let slab = Buffer.allocUnsafeSlow(slabBytes);
let at = 0;

/** A command as Redis reads it: an array of bulk strings. */
export function encodeCommand(head: readonly string[], values: RunValues): Buffer {
  let most = mostFraming;
  for (const value of head) most += mostFraming + mostBytesPerUnit * value.length;
  for (const value of values) most += mostFraming + mostBytesPerUnit * value.length;
  if (at + most > slab.length) {
    slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, most));
    at = 0;
  }
  const from = at;
  writeLength(0x2a, head.length + values.length);
  for (const value of head) writeText(value);
  for (const value of values) {
    if (typeof value === "string") writeText(value);
    else writeBytes(value);
  }
  return slab.subarray(from, at);
}

function writeLineEnd(): void {
  slab[at] = 13;
  slab[at + 1] = 10;
  at += 2;
}

function writeLength(mark: number, length: number): void {
  slab[at++] = mark;
  let power = 1;
  while (power * 10 <= length) power *= 10;
  for (let rest = length; power >= 1; power /= 10) {
    const digit = Math.floor(rest / power);
    slab[at++] = 48 + digit;
    rest -= digit * power;
  }
  writeLineEnd();
}

function writeBytes(value: Buffer): void {
  writeLength(0x24, value.length);
  slab.set(value, at);
  at += value.length;
  writeLineEnd();
}

// Up to about this length a loop is faster than a call into the runtime.
const shortText = 64;

function writeText(value: string): void {
  const { length } = value;
  const before = at;
  if (length <= shortText) {
    writeLength(0x24, length);
    let index = 0;
    for (; index < length; index += 1) {
      const code = value.charCodeAt(index);
      if (code > 0x7f) break;
      slab[at + index] = code;
    }
    if (index === length) {
      at += length;
      return writeLineEnd();
    }
    at = before;
  }
  writeLength(0x24, Buffer.byteLength(value));
  at += slab.write(value, at);
  writeLineEnd();
}
