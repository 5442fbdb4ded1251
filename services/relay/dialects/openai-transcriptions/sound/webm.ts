import { opusPacketMs } from "./opus.ts";
import type { Sound } from "./sound.ts";

// RFC 8794 (EBML) and 9559 (Matroska): elements by their ids.
const ids = {
  segment: 0x18538067,
  info: 0x1549a966,
  scale: 0x2ad7b1,
  tracks: 0x1654ae6b,
  track: 0xae,
  trackNumber: 0xd7,
  codec: 0x86,
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
      let size = 0;
      while (file[at] === 255 && at < end) {
        size += 255;
        at += 1;
      }
      sizes.push(size + (file[at] ?? 0));
      at += 1;
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

class Walk {
  private readonly file: Buffer;
  private scaleNs = 1_000_000;
  private track = 0;
  private readonly opusTracks = new Map<number, Sound>();
  private isEncoded = false;
  private isLossless = false;
  private clusterTime = 0;
  private lastMs = 0;
  private bytes = 0;

  constructor(file: Buffer) {
    this.file = file;
  }

  /** The longest track, since nobody knows which of them is heard. */
  sound(): Sound | undefined {
    const opus = [...this.opusTracks.values()];
    const isOpus = opus.length > 0;
    const ms = isOpus ? Math.max(...opus.map((track) => track.ms)) : this.lastMs;
    const bytes = isOpus ? Math.max(...opus.map((track) => track.bytes)) : this.bytes;
    const bytesPerSecond = this.isLossless && !isOpus ? losslessBytesPerSecond : undefined;
    return ms > 0 && !this.isEncoded ? { ms, bytes, bytesPerSecond } : undefined;
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
    else if (id === ids.encodings) this.isEncoded = true;
    else if (id === ids.time) this.clusterTime = number;
    else if (id === ids.simpleBlock || id === ids.block) this.takeBlock(start, end);
  }

  private noteCodec(name: string): void {
    if (name.startsWith("A_OPUS")) this.opusTracks.set(this.track, { ms: 0, bytes: 0 });
    this.isLossless ||= lossless.test(name);
  }

  private takeBlock(start: number, end: number): void {
    const { file } = this;
    const track = readNumber(file, start, false);
    if (!track || track.end + 3 > end) return;
    const time = this.clusterTime + file.readInt16BE(track.end);
    this.lastMs = Math.max(this.lastMs, (time * this.scaleNs) / 1_000_000);
    this.bytes += end - start;
    const opus = this.opusTracks.get(track.value);
    if (!opus) return;
    opus.bytes += end - start;
    for (const at of framesOf(file, track.end + 2, end)) opus.ms += opusPacketMs(file[at] ?? 0, file[at + 1] ?? 0);
  }
}

/** The sound of WebM: of Opus packet by packet, else until the last block. */
export function readWebm(file: Buffer): Sound | undefined {
  const walk = new Walk(file);
  walk.run();
  return walk.sound();
}
