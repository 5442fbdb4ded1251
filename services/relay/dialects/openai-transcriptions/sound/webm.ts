import { opusPacketMs } from "./opus.ts";
import type { Sound } from "./sound.ts";
import { readModes, readVorbisHead, vorbisPackets, type PacketMs } from "./vorbis.ts";

// RFC 8794 (EBML) and 9559 (Matroska): elements by their ids.
const ids = {
  segment: 0x18538067,
  info: 0x1549a966,
  scale: 0x2ad7b1,
  tracks: 0x1654ae6b,
  track: 0xae,
  trackNumber: 0xd7,
  codec: 0x86,
  codecPrivate: 0x63a2,
  encodings: 0x6d80,
  cluster: 0x1f43b675,
  time: 0xe7,
  group: 0xa0,
  simpleBlock: 0xa3,
  block: 0xa1,
};
const containers = new Set([ids.segment, ids.info, ids.tracks, ids.track, ids.cluster, ids.group]);
const maxElements = 4_000_000;
// Without loss, and 24 bits at 96 kHz, which is as much as anybody records.
const lossless = /^A_(?:FLAC|PCM|ALAC|TTA|WAVPACK)/;
const losslessBytesPerSecond = 2 * 3 * 96_000;

/** A number of one to eight bytes, whose first byte tells how many; -1 for a size that is not known. */
function readNumber(file: Buffer, at: number, keepsMark: boolean): { value: number; end: number } | undefined {
  const first = file[at] ?? 0;
  const bytes = Math.clz32(first) - 23;
  if (bytes > 8 || at + bytes > file.length) return undefined;
  let value = keepsMark ? first : first & ((1 << (8 - bytes)) - 1);
  let isUnknown = !keepsMark && value === (1 << (8 - bytes)) - 1;
  for (let index = 1; index < bytes; index += 1) {
    value = value * 256 + (file[at + index] as number);
    isUnknown &&= file[at + index] === 255;
  }
  return { value: isUnknown ? -1 : value, end: at + bytes };
}

/** A size that is told in bytes of 255 and a last one that is less. */
function readXiph(file: Buffer, from: number, end: number): { size: number; end: number } {
  let [size, at] = [0, from];
  while (file[at] === 255 && at < end) {
    size += 255;
    at += 1;
  }
  return { size: size + (file[at] ?? 0), end: at + 1 };
}

// More than any books that a codec has, and more tracks than anybody records.
const maxSetupBytes = 262_144;
const maxSetups = 16;

/** The headers of Vorbis behind one another, with the sizes of the first two before them (Matroska, codec mappings). */
function readVorbis(file: Buffer, start: number, end: number): PacketMs | undefined {
  if (file[start] !== 2) return undefined;
  const first = readXiph(file, start + 1, end);
  const second = readXiph(file, first.end, end);
  const setupAt = second.end + first.size + second.size;
  if (setupAt >= end || end - setupAt > maxSetupBytes) return undefined;
  const head = readVorbisHead(file.subarray(second.end, second.end + first.size));
  const isLong = readModes(file.subarray(setupAt, end));
  return head && isLong && vorbisPackets({ ...head, isLong });
}

const opusPackets: PacketMs = ([first = 0, second = 0]) => opusPacketMs(first, second);

const [xiphLacing, fixedLacing] = [1, 2];

/** Where the frames of a block begin, of which there may be many in it; `at`: its flags. */
function framesOf(file: Buffer, flagsAt: number, end: number): number[] {
  const lacing = ((file[flagsAt] ?? 0) >> 1) & 3;
  if (lacing === 0) return [flagsAt + 1];
  const count = (file[flagsAt + 1] ?? 0) + 1;
  let at = flagsAt + 2;
  const sizes: number[] = [];
  for (let index = 0; index < count - 1 && lacing !== fixedLacing && at < end; index += 1) {
    if (lacing === xiphLacing) {
      const told = readXiph(file, at, end);
      sizes.push(told.size);
      at = told.end;
    } else {
      const number = readNumber(file, at, false);
      if (!number) break;
      // The first is a size, each other one how much it differs, around the middle of what so many bytes hold.
      const middle = 2 ** (7 * (number.end - at) - 1) - 1;
      sizes.push(index === 0 ? number.value : (sizes[index - 1] ?? 0) + number.value - middle);
      at = number.end;
    }
  }
  const fixed = Math.floor((end - at) / count);
  return Array.from({ length: count }, (_, index) => {
    const start = at;
    at += lacing === fixedLacing ? fixed : Math.max(0, sizes[index] ?? 0);
    return start;
  });
}

/** What the packets of a track tell. */
type Track = Sound & { isOpus: boolean; packetMs?: PacketMs | undefined };

class Walk {
  private readonly file: Buffer;
  private scaleNs = 1_000_000;
  private track = 0;
  private readonly tracks = new Map<number, Track>();
  private isEncoded = false;
  private isLossless = false;
  private setups = 0;
  private clusterTime = 0;
  private lastMs = 0;
  private bytes = 0;

  constructor(file: Buffer) {
    this.file = file;
  }

  /** The longest track, since nobody knows which of them is heard. */
  sound(): Sound | undefined {
    if (this.isEncoded) return undefined;
    const tracks = [...this.tracks.values()];
    const opus = tracks.filter(({ isOpus }) => isOpus);
    const most = (lengths: number[]): number => Math.max(0, ...lengths);
    if (opus.length > 0) {
      const ms = most(opus.map((track) => track.ms));
      return ms > 0 ? { ms, bytes: most(opus.map(({ bytes }) => bytes)) } : undefined;
    }
    const ms = most([this.lastMs, ...tracks.map((track) => track.ms)]);
    const bytesPerSecond = this.isLossless ? losslessBytesPerSecond : undefined;
    return ms > 0 ? { ms, bytes: this.bytes, bytesPerSecond } : undefined;
  }

  run(): void {
    let at = 0;
    for (let count = 0; count < maxElements && at < this.file.length; count += 1) {
      const id = readNumber(this.file, at, true);
      const size = id && readNumber(this.file, id.end, false);
      if (!id || !size) return;
      if (!containers.has(id.value)) {
        if (size.value === -1) return;
        this.take(id.value, size.end, Math.min(size.end + size.value, this.file.length));
        at = size.end + size.value;
      } else at = size.end;
    }
  }

  private take(id: number, start: number, end: number): void {
    const { file } = this;
    const length = end - start;
    const number = length >= 1 && length <= 6 ? file.readUIntBE(start, length) : 0;
    if (id === ids.scale) this.scaleNs = number || this.scaleNs;
    else if (id === ids.trackNumber) this.track = number;
    else if (id === ids.codec) this.noteCodec(file.toString("latin1", start, Math.min(end, start + 16)));
    else if (id === ids.codecPrivate) this.notePrivate(start, end);
    else if (id === ids.encodings) this.isEncoded = true;
    else if (id === ids.time) this.clusterTime = number;
    else if (id === ids.simpleBlock || id === ids.block) this.takeBlock(start, end);
  }

  private noteCodec(name: string): void {
    const isOpus = name.startsWith("A_OPUS");
    if (isOpus) this.note({ isOpus, packetMs: opusPackets });
    else if (name.startsWith("A_VORBIS")) this.note({ isOpus });
    this.isLossless ||= lossless.test(name);
  }

  /** It may stand before the name of its codec; Opus tells nothing in it that its packets do not. */
  private notePrivate(start: number, end: number): void {
    if (this.setups >= maxSetups) return;
    this.setups += 1;
    const packetMs = readVorbis(this.file, start, end);
    if (packetMs && !this.tracks.get(this.track)?.isOpus) this.note({ isOpus: false, packetMs });
  }

  private note(told: Pick<Track, "isOpus" | "packetMs">): void {
    this.tracks.set(this.track, { ms: 0, bytes: 0, ...this.tracks.get(this.track), ...told });
  }

  private takeBlock(start: number, end: number): void {
    const { file } = this;
    const track = readNumber(file, start, false);
    if (!track || track.end + 3 > end) return;
    const time = this.clusterTime + file.readInt16BE(track.end);
    this.lastMs = Math.max(this.lastMs, (time * this.scaleNs) / 1_000_000);
    this.bytes += end - start;
    const known = this.tracks.get(track.value);
    if (!known?.packetMs) return;
    known.bytes += end - start;
    for (const at of framesOf(file, track.end + 2, end)) known.ms += known.packetMs(file.subarray(at, at + 2));
  }
}

/** The sound of WebM: of Opus packet by packet, of Vorbis at least so, else until the last block. */
export function readWebm(file: Buffer): Sound | undefined {
  const walk = new Walk(file);
  walk.run();
  return walk.sound();
}
