import { instantDigits, instantMark, jsonAnswer, type LoadKind, streamEnd, streamFrames } from "./answers.ts";

const newline = 0x0a;
const markByte = instantMark.charCodeAt(0);

/** Watches the body of one answer go by and says whether it was whole. */
export type Checker = {
  begin: (status: number) => void;
  /** Returns how many records ended in this part. */
  look: (part: Buffer) => number;
  /** What is wrong with the answer; empty when it is whole. */
  complaint: () => string;
};

/** Instants of the upstream's clock, in microseconds, are told to `onInstant` as they come by. */
export function createChecker(kind: LoadKind, onInstant: (instantUs: number) => void): Checker {
  const expectedBytes = Buffer.byteLength(jsonAnswer());
  let status = 0;
  let bytes = 0;
  let records = 0;
  let tail: Buffer = Buffer.alloc(0);
  const isStream = kind !== "json";

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
      if (kind === "paced") readInstants(part);
      tail = part.length >= streamEnd.length ? part : Buffer.concat([tail, part]).subarray(-streamEnd.length);
      return found;
    },
    complaint: () => {
      if (status !== 200) return `status ${status}: ${tail.toString().slice(-300)}`;
      if (!isStream) return bytes === expectedBytes ? "" : `${bytes} bytes instead of ${expectedBytes}`;
      if (records !== streamFrames) return `${records} records instead of ${streamFrames}`;
      return tail.subarray(-streamEnd.length).equals(Buffer.from(streamEnd)) ? "" : "no [DONE] at the end";
    },
  };
}
