import { opusPacketMs } from "./opus.ts";

// Pages of Ogg: RFC 3533. What is in them: RFC 7845 (Opus), the specifications of Vorbis I and Speex.
const page = Buffer.from("OggS");
const headBytes = 27;

/** Samples of a second, by the first packet; undefined for sound that is not known. */
function rateOf(packet: Buffer): number | undefined {
  const head = packet.toString("latin1", 0, 8);
  if (head === "OpusHead") return 48_000;
  if (head.startsWith("\u0001vorbis") && packet.length >= 16) return packet.readUInt32LE(12);
  if (head.startsWith("Speex") && packet.length >= 40) return packet.readUInt32LE(36);
  return undefined;
}

/** Milliseconds of the packets that begin on a page. */
function packetsMs(file: Buffer, at: number, segments: Buffer, isContinued: boolean): number {
  let [ms, start, isBegin] = [0, at, !isContinued];
  for (const size of segments) {
    if (isBegin) ms += opusPacketMs(file[start] ?? 0, file[start + 1] ?? 0);
    start += size;
    isBegin = size < 255;
  }
  return ms;
}

/** Milliseconds of Ogg: of Opus packet by packet, else by the highest position that a page tells. */
export function oggMs(file: Buffer): number | undefined {
  let rate: number | undefined;
  let isOpus = false;
  let [last, ms, pages] = [0, 0, 0];
  for (let at = 0; at !== -1 && at + headBytes < file.length; at = file.indexOf(page, at)) {
    const segments = file.subarray(at + headBytes, at + headBytes + (file[at + 26] ?? 0));
    const start = at + headBytes + segments.length;
    if (pages === 0) {
      rate = rateOf(file.subarray(start));
      isOpus = file.toString("latin1", start, start + 4) === "Opus";
    }
    // Two pages of heads.
    if (isOpus && pages > 1) ms += packetsMs(file, start, segments, ((file[at + 5] ?? 0) & 1) === 1);
    const position = file.readBigInt64LE(at + 6);
    if (position > last && position < 1n << 48n) last = Number(position);
    pages += 1;
    at = start;
  }
  if (!rate) return undefined;
  return Math.max(ms, isOpus ? 0 : (last / rate) * 1_000);
}
