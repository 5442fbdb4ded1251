import { instantDigits, instantMark, type LoadKind } from "./answers.ts";

const newline = 0x0a;
const markByte = instantMark.charCodeAt(0);
const keptTail = 16;

/** How a whole answer is known: bytes of one that comes at once, records and the end of a stream. */
export type Expectation = {
  kind: LoadKind;
  /** Where it is not known before, the first answer sets it, and all others must be alike. */
  size: number | undefined;
  /** The least that even the first answer must have. */
  minSize: number;
  /** Last bytes of a stream. */
  end: string;
};

/** Watches the body of one answer go by and says whether it was whole. */
export type Checker = {
  begin: (status: number) => void;
  /** Returns how many records ended in this part. */
  look: (part: Buffer) => number;
  /** What is wrong with the answer; empty when it is whole. */
  complaint: () => string;
};

/** Instants of the upstream's clock, in microseconds, are told to `onInstant` as they come by. */
export function createChecker(expected: Expectation, onInstant: (instantUs: number) => void): Checker {
  const isStream = expected.kind !== "json";
  let status = 0;
  let bytes = 0;
  let records = 0;
  let tail: Buffer = Buffer.alloc(0);

  const countRecords = (part: Buffer): number => {
    let found = part[0] === newline && tail.at(-1) === newline ? 1 : 0;
    for (let at = part.indexOf("\n\n"); at >= 0; at = part.indexOf("\n\n", at + 2)) found += 1;
    return found;
  };
  const readInstants = (part: Buffer): void => {
    for (let at = part.indexOf(markByte); at >= 0; at = part.indexOf(markByte, at + instantDigits)) {
      const digits = part.toString("latin1", at + 1, at + 1 + instantDigits);
      // One that is cut in two by the network is left out; the others are enough.
      if (digits.length === instantDigits) onInstant(Number(digits));
    }
  };
  return {
    begin: (answerStatus) => {
      status = answerStatus;
      bytes = 0;
      records = 0;
      tail = Buffer.alloc(0);
    },
    look: (part) => {
      bytes += part.length;
      const found = isStream ? countRecords(part) : 0;
      records += found;
      if (expected.kind === "paced") readInstants(part);
      tail = part.length >= keptTail ? part : Buffer.concat([tail, part]).subarray(-keptTail);
      return found;
    },
    complaint: () => {
      if (status !== 200) return `status ${status}: ${tail.toString().slice(-300)}`;
      const size = isStream ? records : bytes;
      const unit = isStream ? "records" : "bytes";
      if (size < expected.minSize) return `${size} ${unit} instead of at least ${expected.minSize}`;
      expected.size ??= size;
      if (size !== expected.size) return `${size} ${unit} instead of ${expected.size}`;
      if (!isStream || tail.subarray(-expected.end.length).equals(Buffer.from(expected.end))) return "";
      return `no ${JSON.stringify(expected.end)} at the end`;
    },
  };
}
