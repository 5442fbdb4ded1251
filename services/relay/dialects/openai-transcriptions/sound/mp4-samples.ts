// Where the samples of a track lie in a file (ISO 14496-12, 8.7 and 8.8): whoever decodes it reads them there, whatever
// its times tell.

type Span = { start: number; end: number };

/** The contents of the tables of one track; `isWide`: its places have 64 bits (co64). */
export type SampleTables = { sizes: Span; chunks: Span; places: Span; isWide: boolean };

/** Reads samples as long as there may be more of them: they lie beside one another, and none is read twice. */
export class SampleReader {
  ms = 0;
  private readonly file: Buffer;
  private readonly sampleMs: (sample: Buffer) => number;
  private readonly samples: { left: number };
  private bytesLeft: number;

  /** `samples`: how many may still be read. */
  constructor(file: Buffer, sampleMs: (sample: Buffer) => number, samples: { left: number }) {
    this.file = file;
    this.sampleMs = sampleMs;
    this.samples = samples;
    this.bytesLeft = file.length;
  }

  /** Reads a sample; false where there can be no more. */
  private take(at: number, bytes: number): boolean {
    this.samples.left -= 1;
    this.bytesLeft -= bytes;
    if (this.samples.left < 0 || this.bytesLeft < 0 || at < 0 || at + bytes > this.file.length) return false;
    // More than the head of any frame.
    this.ms += this.sampleMs(this.file.subarray(at, at + Math.min(bytes, 16)));
    return true;
  }

  /** Reads the samples of chunks, of which each holds as many as its table says (8.7.4). */
  readChunks({ sizes, chunks, places, isWide }: SampleTables): void {
    const { file } = this;
    if (sizes.start + 12 > sizes.end) return;
    const [fixed, count] = [file.readUInt32BE(sizes.start + 4), file.readUInt32BE(sizes.start + 8)];
    const step = isWide ? 8 : 4;
    let [sample, entry] = [0, chunks.start + 8];
    for (let chunk = 1, at = places.start + 8; at + step <= places.end; chunk += 1, at += step) {
      while (entry + 24 <= chunks.end && file.readUInt32BE(entry + 12) <= chunk) entry += 12;
      if (entry + 12 > chunks.end) return;
      const last = Math.min(sample + file.readUInt32BE(entry + 4), count);
      let start = isWide ? Number(file.readBigUInt64BE(at)) : file.readUInt32BE(at);
      for (; sample < last; sample += 1) {
        const sizeAt = sizes.start + 12 + 4 * sample;
        if (fixed === 0 && sizeAt + 4 > sizes.end) return;
        const bytes = fixed === 0 ? file.readUInt32BE(sizeAt) : fixed;
        if (!this.take(start, bytes)) return;
        start += bytes;
      }
    }
  }

  /** Reads a run of a fragment's samples (8.8.8), and gives where the next one begins unless it says so. */
  readRun({ start, end }: Span, from: { base: number; next: number; usualBytes: number }): number {
    const { file } = this;
    if (start + 12 > end) return from.next;
    const flags = file.readUInt32BE(start) & 0xffffff;
    const count = file.readUInt32BE(start + 4);
    const hasPlace = (flags & 1) !== 0;
    const width = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => (flags & flag) !== 0).length;
    const sizeAt = (flags & 0x100) === 0 ? 0 : 4;
    let entry = start + 8 + (hasPlace ? 4 : 0) + ((flags & 4) === 0 ? 0 : 4);
    let at = hasPlace ? from.base + file.readInt32BE(start + 8) : from.next;
    for (let sample = 0; sample < count; sample += 1, entry += width) {
      if (width > 0 && entry + width > end) return at;
      const bytes = (flags & 0x200) === 0 ? from.usualBytes : file.readUInt32BE(entry + sizeAt);
      if (!this.take(at, bytes)) return at;
      at += bytes;
    }
    return at;
  }
}
