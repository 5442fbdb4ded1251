import { readField, rewriteFields, scanJson, type Changes } from "./json-scan.ts";

/** A request body whose grammar was checked, in whatever encoding it came. */
export type RequestBody = {
  bytes: Buffer;
  contentType: string;
  /** Whether a field is there and not null. */
  has: (name: string) => boolean;
  /** Whether a field is a JSON array; looked at, not decoded. */
  isArray: (name: string) => boolean;
  /** A field's value; undefined when it is absent. */
  read: (name: string) => unknown;
  /** The body with other fields; what stays keeps its bytes and its order. */
  rewrite: (changes: Changes) => Buffer;
  /** Bytes of text, from which input tokens are estimated. */
  textBytes: number;
  /** Bytes of each picture, sound or file in it. */
  mediaBytes: readonly number[];
};

const openBracket = "[".charCodeAt(0);
// No other value begins like null.
const nullStart = "n".charCodeAt(0);

/** Reads a JSON object. Throws JsonScanError when it is none. */
export function readJsonBody(bytes: Buffer): RequestBody {
  const scan = scanJson(bytes);
  return {
    bytes,
    contentType: "application/json",
    has: (name) => {
      const field = scan.fields.get(name);
      return field !== undefined && bytes[field.start] !== nullStart;
    },
    isArray: (name) => {
      const field = scan.fields.get(name);
      return field !== undefined && bytes[field.start] === openBracket;
    },
    read: (name) => readField(bytes, scan, name),
    rewrite: (changes) => rewriteFields(bytes, scan, changes),
    textBytes: scan.textBytes,
    mediaBytes: scan.mediaBytes,
  };
}
