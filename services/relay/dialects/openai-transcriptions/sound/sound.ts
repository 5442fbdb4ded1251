/** What a file tells of its sound; `bytes` are those of the sound alone, without a film's pictures. */
export type Sound = { ms: number; bytes: number };
