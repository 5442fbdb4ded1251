import { deflateSync } from "node:zlib";

/** A PNG of one colour with one bit to a pixel, so that a large picture is few bytes. */
export function png(width: number, height: number): string {
  const chunk = (type: string, data: Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    // The checksum is not looked at by anybody here.
    return Buffer.concat([length, Buffer.from(type), data, Buffer.alloc(4)]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 1;
  const rows = Buffer.alloc(height * (1 + Math.ceil(width / 8)));
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  const all = [signature, chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat(all).toString("base64");
}

/** A PDF of so many pages which are the same one; compressed, they take few bytes. */
export function pdf(pages: number, isPacked: boolean): string {
  const objects = "<< /Type /Page /Parent 2 0 R /Contents 3 0 R >>\n".repeat(pages);
  const packed = Buffer.concat([
    Buffer.from("4 0 obj << /Type /ObjStm /Filter /FlateDecode >>\nstream\n"),
    deflateSync(Buffer.from(objects)),
    Buffer.from("\nendstream endobj\n"),
  ]);
  const head = Buffer.from(
    `%PDF-1.7\n${"% a comment\n".repeat(200)}2 0 obj << /Type /Pages /Count ${pages} >> endobj\n`,
  );
  return Buffer.concat([head, isPacked ? packed : Buffer.from(objects)]).toString("base64");
}

/** MPEG 2.5 layer III at 8 kbit/s, mono, 8 kHz: silence, in frames of 72 bytes for 72 ms. */
export function quietMp3(seconds: number): Buffer {
  const frame = Buffer.alloc(72);
  Buffer.from("ffe318c0", "hex").copy(frame);
  return Buffer.concat(Array.from({ length: Math.ceil(seconds / 0.072) }, () => frame));
}

/** PCM of 8 bits at 1 kHz: silence. */
export function quietWav(seconds: number): Buffer {
  const rate = 1_000;
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + rate * seconds, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write("data", 36);
  head.writeUInt32LE(rate * seconds, 40);
  return Buffer.concat([head, Buffer.alloc(rate * seconds, 128)]);
}

/** The format of a WAV file, with the length of its chunk: of samples as they are, unless it has another tag. */
export function wavFormat(channels: number, rate: number, bits: number, tag = 1): Buffer {
  const format = Buffer.alloc(20);
  format.writeUInt32LE(16, 0);
  format.writeUInt16LE(tag, 4);
  format.writeUInt16LE(channels, 6);
  format.writeUInt32LE(rate, 8);
  format.writeUInt32LE(0xffffffff, 12);
  format.writeUInt16LE(1, 16);
  format.writeUInt16LE(bits, 18);
  return format;
}
