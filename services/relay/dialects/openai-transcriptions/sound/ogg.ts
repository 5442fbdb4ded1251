import { opusPacketMs } from "./opus.ts";

// Pages of Ogg: RFC 3533. What is in them: RFC 7845 (Opus), the specifications of Vorbis I and Speex.
const page = Buffer.from("OggS");
const headBytes = 27;
const isFirstPage = 2;

// A frame of Speex, whatever its mode.
const speexMs = 20;

/** What the first packet of a stream tells of it: how long a packet is, or how many samples of a second are told. */
type Stream = { packetMs?: (first: number, second: number) => number; rate?: number; pages: number };

function streamOf(packet: Buffer): Stream {
  const head = packet.toString("latin1", 0, 8);
  if (head === "OpusHead") return { packetMs: opusPacketMs, pages: 0 };
  if (head.startsWith("Speex") && packet.length >= 68) {
    const frames = Math.max(1, packet.readUInt32LE(64));
    return { packetMs: () => frames * speexMs, pages: 0 };
  }
  if (head.startsWith("\u0001vorbis") && packet.length >= 16) return { rate: packet.readUInt32LE(12), pages: 0 };
  return { pages: 0 };
}

/** Milliseconds of the packets that begin on a page. */
function packetsMs(
  file: Buffer,
  { at, segments, isContinued }: { at: number; segments: Buffer; isContinued: boolean },
  packetMs: NonNullable<Stream["packetMs"]>,
): number {
  let [ms, start, isBegin] = [0, at, !isContinued];
  for (const size of segments) {
    if (isBegin) ms += packetMs(file[start] ?? 0, file[start + 1] ?? 0);
    start += size;
    isBegin = size < 255;
  }
  return ms;
}

/**
 * Milliseconds of Ogg: of Opus and Speex packet by packet, of all streams together, since nobody knows which of them
 * is heard; of Vorbis by the highest position that a page tells.
 */
export function oggMs(file: Buffer): number | undefined {
  const streams = new Map<number, Stream>();
  let [ofPackets, ofPositions] = [0, 0];
  for (let at = 0; at !== -1 && at + headBytes < file.length; at = file.indexOf(page, at)) {
    const segments = file.subarray(at + headBytes, at + headBytes + (file[at + 26] ?? 0));
    const start = at + headBytes + segments.length;
    const flags = file[at + 5] ?? 0;
    const serial = file.readUInt32LE(at + 14);
    const known = (flags & isFirstPage) === 0 ? streams.get(serial) : undefined;
    const stream = known ?? streamOf(file.subarray(start));
    streams.set(serial, stream);
    // Two pages of heads.
    if (stream.packetMs && stream.pages > 1) {
      ofPackets += packetsMs(file, { at: start, segments, isContinued: (flags & 1) === 1 }, stream.packetMs);
    }
    const position = file.readBigInt64LE(at + 6);
    if (stream.rate && position > 0 && position < 1n << 48n) {
      ofPositions = Math.max(ofPositions, (Number(position) / stream.rate) * 1_000);
    }
    stream.pages += 1;
    at = start;
  }
  return ofPackets + ofPositions || undefined;
}
