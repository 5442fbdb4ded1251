/**
 * What a file tells of its sound; `bytes` are those of the sound alone, without a film's pictures, and `bytesPerSecond`
 * as many of them as a second takes at most, where that depends on what is in the file.
 */
export type Sound = { ms: number; bytes: number; bytesPerSecond?: number | undefined };

/** Samples as they are, in CD quality. */
export const cdBytesPerSecond = 1_411_200 / 8;
