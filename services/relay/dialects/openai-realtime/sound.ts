/** How sound is written in a session. */
export type SoundFormat = "pcm" | "g711";

// 24,000 samples of 16 bits a second, or 8,000 of 8 bits (https://developers.openai.com/api/docs/guides/realtime).
const bytesPerSecond: Record<SoundFormat, number> = { pcm: 48_000, g711: 8_000 };
// A token is 100 ms of what a model hears and 50 ms of what it says
// (https://developers.openai.com/api/docs/guides/realtime-costs).
const heardPerSecond = 10;
const spokenPerSecond = 20;

const secondsOf = (characters: number, format: SoundFormat): number => (characters * 3) / 4 / bytesPerSecond[format];

/** Tokens of sound in base64 that a model hears, not rounded. */
export const heardTokens = (characters: number, format: SoundFormat): number =>
  secondsOf(characters, format) * heardPerSecond;

/** Tokens of sound in base64 that a model says, not rounded. */
export const spokenTokens = (characters: number, format: SoundFormat): number =>
  secondsOf(characters, format) * spokenPerSecond;

/** Milliseconds of sound that so many tokens are which a model hears. */
export const millisecondsOf = (tokens: number): number => Math.ceil((tokens * 1_000) / heardPerSecond);

/** A format by either of its names, that of today (`audio/pcmu`) and that of the beta (`g711_ulaw`). */
export const soundFormatOf = (type: string): SoundFormat => (/pcmu|pcma|g711/.test(type) ? "g711" : "pcm");
