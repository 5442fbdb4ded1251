const textOpcode = 0x81;
const shortMost = 125;
const middleMost = 0xff_ff;

const headBytes = (length: number): number => (length <= shortMost ? 2 : length <= middleMost ? 4 : 10);

/** Texts as frames of a server (RFC 6455, 5.2), one behind the other: `ws` makes two writes of each. */
export function textFrames(texts: readonly string[]): Buffer {
  const lengths = texts.map((text) => Buffer.byteLength(text));
  const frames = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + headBytes(length) + length, 0));
  let at = 0;
  texts.forEach((text, index) => {
    const length = lengths[index] as number;
    const head = headBytes(length);
    frames[at] = textOpcode;
    frames[at + 1] = head === 2 ? length : head === 4 ? shortMost + 1 : shortMost + 2;
    if (head === 4) frames.writeUInt16BE(length, at + 2);
    else if (head === 10) frames.writeBigUInt64BE(BigInt(length), at + 2);
    at += head;
    at += frames.write(text, at);
  });
  return frames;
}
