import type { Frame } from "./answer.ts";
import type { Fault, Framing } from "./behaviour.ts";

/** A write to the connection: bytes and what they carry. */
export type Packet = { bytes: Buffer; tokens: number; hasClaim: boolean };

/** Puts a frame in bytes, as SSE with the oddities asked for unless it is bytes already. */
export function frameBytes(frame: Frame, framing: Framing = {}): Buffer {
  if (frame.bytes) return frame.bytes;
  const end = framing.isCrlf ? "\r\n" : "\n";
  const colon = framing.isTight ? ":" : ": ";
  const lines = [
    ...(framing.hasComments ? [`:${framing.isTight ? "" : " "}keep-alive`] : []),
    ...(frame.event === undefined ? [] : [`event${colon}${frame.event}`]),
    `data${colon}${frame.data}${framing.isPadded ? "     " : ""}`,
  ];
  return Buffer.from(`${lines.join(end)}${end}${end}`);
}

/** Turns the frames before a fault into the writes that deliver them. */
export function packFrames(frames: Frame[], framing: Framing = {}): Packet[] {
  const packets = frames.map((frame) => ({
    bytes: frameBytes(frame, framing),
    tokens: frame.tokens,
    hasClaim: frame.hasClaim ?? false,
  }));
  const joined = framing.coalescedFrames ? joinPackets(packets, framing.coalescedFrames) : packets;
  return framing.bytePieces ? joined.flatMap((packet) => splitPacket(packet, framing.bytePieces ?? 1)) : joined;
}

/** How many frames are written before the fault strikes; all of them without a fault. */
export function framesBeforeFault(frames: Frame[], fault: Fault | undefined): number {
  if (!fault) return frames.length;
  if (fault.withheldFrames !== undefined) return Math.max(0, frames.length - fault.withheldFrames);
  if (fault.afterFrames !== undefined) return Math.min(fault.afterFrames, frames.length);
  let chunksLeft = fault.afterChunks ?? 0;
  const strike = frames.findIndex(({ isContent }) => isContent && chunksLeft-- === 0);
  if (strike >= 0) return strike;
  // Fewer chunks than asked: it strikes after the last of them, before the end of the stream.
  return frames.findLastIndex(({ isContent }) => isContent) + 1;
}

function joinPackets(packets: Packet[], size: number): Packet[] {
  const groups = Array.from({ length: Math.ceil(packets.length / size) }, (_, index) =>
    packets.slice(index * size, (index + 1) * size),
  );
  return groups.map((group) => ({
    bytes: Buffer.concat(group.map(({ bytes }) => bytes)),
    tokens: group.reduce((sum, { tokens }) => sum + tokens, 0),
    hasClaim: group.some(({ hasClaim }) => hasClaim),
  }));
}

// The tokens count as delivered with the last piece.
function splitPacket(packet: Packet, size: number): Packet[] {
  const { bytes } = packet;
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, index) => {
    const piece = bytes.subarray(index * size, (index + 1) * size);
    return index === count - 1 ? { ...packet, bytes: piece } : { bytes: piece, tokens: 0, hasClaim: false };
  });
}
