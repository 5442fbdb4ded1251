// The specification of Vorbis I: packets are read from the lowest bit of each byte on.

/** Samples of a short and a long block, and which of both each mode of packets has. */
export type Vorbis = { rate: number; short: number; long: number; isLong: boolean[] };

/** Rate and sizes of blocks, as the first header tells them (4.2.2); its modes are not known yet. */
export function readVorbisHead(packet: Buffer): Vorbis | undefined {
  if (packet.length < 29) return undefined;
  const sizes = packet[28] ?? 0;
  const [short, long] = [1 << (sizes & 15), 1 << (sizes >> 4)];
  const rate = packet.readUInt32LE(12);
  return rate > 0 && short >= 64 && long >= short && long <= 8_192 ? { rate, short, long, isLong: [] } : undefined;
}

const modeBits = 41;
const maxModes = 64;

/**
 * The modes that the third header ends with (4.2.4), read from its end, so that nothing before them has to be: each is
 * whether its blocks are long, 32 bits of nothing, and a mapping of 6 bits; before them stands how many they are.
 */
export function readModes(setup: Buffer): boolean[] | undefined {
  const bit = (at: number): number => ((setup[at >> 3] ?? 0) >> (at & 7)) & 1;
  const bits = (at: number, count: number): number => {
    let value = 0;
    for (let index = count - 1; index >= 0; index -= 1) value = value * 2 + bit(at + index);
    return value;
  };
  let end = setup.length * 8 - 1;
  while (end > 0 && bit(end) === 0) end -= 1;
  const modes: boolean[] = [];
  let found: boolean[] | undefined;
  // From 7 bytes on, which are its name.
  for (let at = end - modeBits; at >= 62 && modes.length < maxModes; at -= modeBits) {
    if (bits(at + 1, 32) !== 0 || bits(at + 33, 8) >= 64) break;
    modes.unshift(bit(at) === 1);
    if (bits(at - 6, 6) + 1 === modes.length) found = [...modes];
  }
  return found;
}

/** Samples of the block that a packet is; undefined for one that is no sound. */
function blockOf({ short, long, isLong }: Vorbis, first: number): number | undefined {
  if ((first & 1) !== 0) return undefined;
  const mode = (first >> 1) & ((1 << (32 - Math.clz32(isLong.length - 1))) - 1);
  return isLong[mode] ? long : short;
}

/** Milliseconds of a packet, of which the first bytes are enough. */
export type PacketMs = (packet: Buffer) => number;

/** Overlapping blocks: from the middle of each to the middle of the next one (4.3.8). */
export function vorbisPackets(vorbis: Vorbis): PacketMs {
  let before: number | undefined;
  return ([first = 0]) => {
    const block = blockOf(vorbis, first);
    if (block === undefined) return 0;
    const samples = before === undefined ? 0 : (before + block) / 4;
    before = block;
    return (samples / vorbis.rate) * 1_000;
  };
}
