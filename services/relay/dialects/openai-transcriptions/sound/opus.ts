// RFC 6716, 3.1: the first byte of a packet tells how long its frames are, and how many.
const silkMs = [10, 20, 40, 60];
const hybridMs = [10, 20];
const celtMs = [2.5, 5, 10, 20];

/** Milliseconds of sound in a packet. */
export function opusPacketMs(first: number, second: number): number {
  const configuration = first >> 3;
  const frameMs =
    configuration < 12
      ? silkMs[configuration & 3]
      : configuration < 16
        ? hybridMs[configuration & 1]
        : celtMs[configuration & 3];
  const code = first & 3;
  const frames = code === 0 ? 1 : code === 3 ? second & 63 : 2;
  return (frameMs ?? 0) * frames;
}
