const code = (character: string): number => character.charCodeAt(0);
const quote = code('"');
const backslash = code("\\");
const comma = code(",");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");
const smallU = code("u");

/** How large a likeness is. */
export type DigestLimits = {
  /** Of one text. */
  textBytes: number;
  /** Of one field of the top-level object. */
  fieldBytes: number;
  /** Of all of them. */
  bytes: number;
  /** Whether a field of an object in the top-level one is a field of its own, as in events that carry an answer. */
  hasInnerFields: boolean;
};

/** A text's is more than any name, count or word of a provider has; pictures and sounds are cut here. */
const usualLimits: DigestLimits = {
  textBytes: 65_536,
  fieldBytes: 4_194_304,
  bytes: 16_777_216,
  hasInnerFields: false,
};
const maxDepth = 256;

/**
 * A small likeness of a large JSON object, made piece by piece as it comes: what meters it reads the likeness. Long
 * texts are cut; of a field that is too long, what follows is left out, so that each field, however large the one
 * before, is there with its beginning. Usage, which stands behind the content, is whole.
 */
export class JsonDigest {
  private out = Buffer.allocUnsafe(65_536);
  private length = 0;
  private readonly open: number[] = [];
  /** How many of the open objects and lists stand in the likeness. */
  private shownDepth = 0;
  private isFull = false;
  private fieldStart = 0;
  private isInText = false;
  private isAfterBackslash = false;
  /** Digits of an escape that are still to come. */
  private hexDigits = 0;
  private textBytes = 0;
  private isCut = false;
  private hasEnded = false;
  /** Whether what came cannot be one JSON object. */
  isBroken = false;
  private readonly limits: DigestLimits;

  constructor(limits = usualLimits) {
    this.limits = limits;
  }

  add(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length && !this.isBroken)
      at = this.isInText ? this.readText(bytes, at) : this.readStructure(bytes, at);
  }

  /** The likeness; undefined when what came is not one whole object. */
  end(): Buffer | undefined {
    return this.isBroken || !this.hasEnded ? undefined : this.out.subarray(0, this.length);
  }

  private write(byte: number): void {
    if (this.length === this.out.length) {
      const larger = Buffer.allocUnsafe(2 * this.length);
      this.out.copy(larger);
      this.out = larger;
    }
    this.out[this.length++] = byte;
  }

  /** Reads on in a text, to its end or that of the piece. */
  private readText(bytes: Uint8Array, start: number): number {
    let at = start;
    while (at < bytes.length) {
      if ((this.isCut || this.isFull) && !this.isAfterBackslash) at = this.skipPlain(bytes, at);
      const byte = bytes[at];
      if (byte === undefined) break;
      at += 1;
      if (this.isAfterBackslash) {
        this.isAfterBackslash = false;
        this.hexDigits = byte === smallU ? 4 : 0;
      } else if (this.hexDigits > 0) this.hexDigits -= 1;
      else if (byte === quote) {
        this.isInText = false;
        if (!this.isFull) this.write(quote);
        return at;
      } else {
        // Neither within an escape nor within a character of several bytes.
        if (this.textBytes >= this.limits.textBytes && (byte & 0xc0) !== 0x80) this.isCut = true;
        this.isAfterBackslash = byte === backslash;
      }
      this.textBytes += 1;
      if (!this.isFull && !this.isCut) this.write(byte);
    }
    return at;
  }

  /** The next byte of a text that may end it or begin an escape, where nothing of it is written. */
  private skipPlain(bytes: Uint8Array, start: number): number {
    let at = start;
    while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash) at += 1;
    // Digits of an escape are no more than that.
    if (at > start) this.hexDigits = 0;
    return at;
  }

  /** Reads what stands between texts, to the next one or the end of the piece. */
  private readStructure(bytes: Uint8Array, start: number): number {
    for (let at = start; at < bytes.length; at += 1) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        this.isInText = true;
        this.isCut = false;
        this.textBytes = 0;
        this.show(byte);
        return at + 1;
      }
      if (byte === openBrace || byte === openBracket) this.enter(byte);
      else if (byte === closeBrace || byte === closeBracket) this.leave(byte);
      else if (byte === comma) this.goOn();
      else this.show(byte);
      if (this.isBroken) break;
    }
    return bytes.length;
  }

  private show(byte: number): void {
    // The first that is no white space.
    if (this.open.length === 0 && byte > 32) this.isBroken = true;
    else if (!this.isFull) this.write(byte);
  }

  private enter(byte: number): void {
    const isFirst = this.open.length === 0;
    if ((isFirst && (byte !== openBrace || this.hasEnded)) || this.open.length === maxDepth) {
      this.isBroken = true;
      return;
    }
    this.open.push(byte);
    if (this.isFull) return;
    this.shownDepth += 1;
    this.write(byte);
  }

  private leave(byte: number): void {
    const opened = this.open.pop();
    if (opened !== (byte === closeBrace ? openBrace : openBracket)) {
      this.isBroken = true;
      return;
    }
    if (this.open.length < this.shownDepth) {
      this.shownDepth -= 1;
      this.write(byte);
    }
    if (this.open.length === 0) this.hasEnded = true;
  }

  /** A comma: the only place where something can be left out, for a whole value stands before it. */
  private goOn(): void {
    if (this.isBehindField()) {
      this.isFull = this.length > this.limits.bytes;
      this.fieldStart = this.length;
    } else if (this.length - this.fieldStart > this.limits.fieldBytes) this.isFull = true;
    this.show(comma);
  }

  private isBehindField(): boolean {
    const { length } = this.open;
    // What is not shown as a whole has no further fields.
    return (
      length <= 1 || (this.limits.hasInnerFields && length === 2 && this.open[1] === openBrace && this.shownDepth === 2)
    );
  }
}
