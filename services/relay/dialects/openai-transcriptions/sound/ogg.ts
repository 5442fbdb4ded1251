import { opusPacketMs } from "./opus.ts";
import { readModes, readVorbisHead, vorbisPackets, type PacketMs, type Vorbis } from "./vorbis.ts";

// Pages of Ogg: RFC 3533. What is in them: RFC 7845 (Opus), the specifications of Vorbis I and Speex.
const page = Buffer.from("OggS");
const headBytes = 27;
const isFirstPage = 2;

// A frame of Speex, whatever its mode.
const speexMs = 20;

// More than any books that a codec has; what goes before may be a picture of any size.
const maxSetupBytes = 262_144;

/** The pieces of a packet, unless it is too long. */
class Setup {
  packets = 0;
  private pieces: Buffer[] = [];
  private bytes = 0;

  add(piece: Buffer): void {
    this.bytes += piece.length;
    if (this.bytes <= maxSetupBytes) this.pieces.push(piece);
  }

  whole(): Buffer | undefined {
    const packet = this.bytes <= maxSetupBytes ? Buffer.concat(this.pieces) : undefined;
    this.pieces = [];
    this.bytes = 0;
    return packet;
  }
}

/** What the first packet of a stream tells of it: how long a packet is, or how many samples of a second are told. */
type Stream = { packetMs?: PacketMs; rate?: number; vorbis?: Vorbis | undefined; setup: Setup; pages: number };

function streamOf(packet: Buffer): Stream {
  const head = packet.toString("latin1", 0, 8);
  const stream = { setup: new Setup(), pages: 0 };
  if (head === "OpusHead") return { ...stream, packetMs: ([first = 0, second = 0]) => opusPacketMs(first, second) };
  if (head.startsWith("Speex") && packet.length >= 68) {
    const frames = Math.max(1, packet.readUInt32LE(64));
    return { ...stream, packetMs: () => frames * speexMs };
  }
  if (!head.startsWith("\u0001vorbis") || packet.length < 16) return stream;
  return { ...stream, rate: packet.readUInt32LE(12), vorbis: readVorbisHead(packet) };
}

/** A page of a stream: where its packets begin, and how long each part of them is. */
type Page = { at: number; segments: Buffer; isContinued: boolean };

/** Milliseconds of the packets that begin on a page. */
function packetsMs(file: Buffer, { at, segments, isContinued }: Page, packetMs: PacketMs): number {
  let [ms, start, isBegin] = [0, at, !isContinued];
  for (const size of segments) {
    if (isBegin) ms += packetMs(file.subarray(start, start + 2));
    start += size;
    isBegin = size < 255;
  }
  return ms;
}

const setupName = Buffer.from("\u0005vorbis", "latin1");

/** Takes a page of Vorbis' second packet or its third, behind which a page begins with sound (A.2). */
function takeSetup(stream: Stream, file: Buffer, { at, segments }: Page): void {
  const { setup } = stream;
  let [start, end] = [at, at];
  for (const size of segments) {
    end += size;
    if (size === 255) continue;
    setup.add(file.subarray(start, end));
    const packet = setup.whole();
    const isLong = packet?.subarray(0, setupName.length).equals(setupName) ? readModes(packet) : undefined;
    if (stream.vorbis && isLong) stream.packetMs = vorbisPackets({ ...stream.vorbis, isLong });
    setup.packets += 1;
    if (isLong || setup.packets === 2) return void (stream.vorbis = undefined);
    start = end;
  }
  setup.add(file.subarray(start, end));
}

/**
 * Milliseconds of Ogg: of Opus, Speex and Vorbis packet by packet, of all streams together, since nobody knows which of
 * them is heard; of Vorbis at least as its highest position tells.
 */
export function oggMs(file: Buffer): number | undefined {
  const streams = new Map<number, Stream>();
  let [ofPackets, ofVorbis, ofPositions] = [0, 0, 0];
  for (let at = 0; at !== -1 && at + headBytes < file.length; at = file.indexOf(page, at)) {
    const segments = file.subarray(at + headBytes, at + headBytes + (file[at + 26] ?? 0));
    const start = at + headBytes + segments.length;
    const flags = file[at + 5] ?? 0;
    const serial = file.readUInt32LE(at + 14);
    const known = (flags & isFirstPage) === 0 ? streams.get(serial) : undefined;
    const stream = known ?? streamOf(file.subarray(start));
    streams.set(serial, stream);
    const found = { at: start, segments, isContinued: (flags & 1) === 1 };
    // Two pages of heads.
    const ms = stream.packetMs && stream.pages > 1 ? packetsMs(file, found, stream.packetMs) : 0;
    if (stream.rate) ofVorbis += ms;
    else ofPackets += ms;
    if (stream.vorbis && stream.pages > 0) takeSetup(stream, file, found);
    const position = file.readBigInt64LE(at + 6);
    if (stream.rate && position > 0 && position < 1n << 48n) {
      ofPositions = Math.max(ofPositions, (Number(position) / stream.rate) * 1_000);
    }
    stream.pages += 1;
    at = start;
  }
  return ofPackets + Math.max(ofVorbis, ofPositions) || undefined;
}
