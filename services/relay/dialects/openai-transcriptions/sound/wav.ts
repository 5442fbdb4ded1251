// Chunks of RIFF: https://learn.microsoft.com/windows/win32/multimedia/resource-interchange-file-format--riff-
const pcmTags = new Set([1, 3, 0xfffe]);
const maxChunks = 1_000;

/** Bytes of a second, from the format chunk; of samples that are not compressed by what they are made of. */
function bytesPerSecond(file: Buffer, at: number): number {
  const [tag, channels, rate] = [file.readUInt16LE(at), file.readUInt16LE(at + 2), file.readUInt32LE(at + 4)];
  const bits = file.readUInt16LE(at + 14);
  const ofSamples = (channels * rate * bits) / 8;
  return pcmTags.has(tag) ? ofSamples : file.readUInt32LE(at + 8) || ofSamples;
}

/**
 * Milliseconds of a WAV file, from the bytes behind the head of its samples: a length that is told may be a lie, and of
 * a file that was written while it was recorded it is none.
 */
export function wavMs(file: Buffer): number | undefined {
  let perSecond = 0;
  let at = 12;
  for (let chunk = 0; chunk < maxChunks && at + 8 <= file.length; chunk += 1) {
    const name = file.toString("latin1", at, at + 4);
    if (name === "fmt " && at + 24 <= file.length) perSecond = bytesPerSecond(file, at + 8);
    if (name === "data") return perSecond > 0 ? ((file.length - at - 8) / perSecond) * 1_000 : undefined;
    const size = file.readUInt32LE(at + 4);
    at += 8 + size + (size % 2);
  }
  return undefined;
}
