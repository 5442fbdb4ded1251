import { readField, rewriteFields, scanJson, type Changes, type Landmark, type Scan } from "./json-scan.ts";
import { ourNote } from "./opaque.ts";

/** A request body whose grammar was checked, in whatever encoding it came. Its methods do not stand alone. */
export type RequestBody = {
  bytes: Buffer;
  contentType: string;
  /** Whether a field is there and not null. */
  has(name: string): boolean;
  /** Whether a field is a JSON array; looked at, not decoded. */
  isArray(name: string): boolean;
  /** A field's value; undefined when it is absent. */
  read(name: string): unknown;
  /** The body with other fields; what stays keeps its bytes and its order. */
  rewrite(changes: Changes): Buffer;
  /** Whether a string in it begins with one of `landmarks`; nearly never so, and known without another look. */
  mayHold(landmark: Landmark): boolean;
  /** Bytes of text, from which input tokens are estimated. */
  textBytes: number;
  /** Bytes of each picture, sound or file in it. */
  mediaBytes: readonly number[];
};

const openBracket = "[".charCodeAt(0);
// No other value begins like null.
const nullStart = "n".charCodeAt(0);

/** What dialects look for in all of a body: state of other providers' models that came back with it. */
export const landmarks = { extraContent: Buffer.from('"extra_content"'), note: Buffer.from(`"${ourNote}`) };
const allLandmarks = Object.values(landmarks);

/** One object with methods: as six closures it was more than all else that is read of a small body. */
class JsonBody implements RequestBody {
  readonly contentType = "application/json";
  readonly bytes: Buffer;
  private readonly scan: Scan;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.scan = scanJson(bytes, allLandmarks);
  }

  get textBytes(): number {
    return this.scan.textBytes;
  }

  get mediaBytes(): readonly number[] {
    return this.scan.mediaBytes;
  }

  has(name: string): boolean {
    const field = this.scan.fields.get(name);
    return field !== undefined && this.bytes[field.start] !== nullStart;
  }

  isArray(name: string): boolean {
    const field = this.scan.fields.get(name);
    return field !== undefined && this.bytes[field.start] === openBracket;
  }

  read(name: string): unknown {
    return readField(this.bytes, this.scan, name);
  }

  mayHold(landmark: Landmark): boolean {
    return this.scan.met.includes(landmark);
  }

  rewrite(changes: Changes): Buffer {
    return rewriteFields(this.bytes, this.scan, changes);
  }
}

/** Reads a JSON object. Throws JsonScanError when it is none. */
export function readJsonBody(bytes: Buffer): RequestBody {
  return new JsonBody(bytes);
}
