/** The beginning of a string, with its quote, that is looked for while all is read: alone it would take as long. */
export type Landmark = Buffer;

type Entry = { landmark: Landmark; lowered: Uint8Array };

/** Landmarks by their first letter: most strings of a body begin with none of them, and cost one look. */
export type LandmarkIndex = readonly (readonly Entry[] | undefined)[];

// Makes small letters of large ones, and leaves quotes as they are: lenient upstreams take a name in either.
const small = 0x20;

export function indexLandmarks(landmarks: readonly Landmark[]): LandmarkIndex {
  const index: Entry[][] = [];
  for (const landmark of landmarks) {
    const lowered = Uint8Array.from(landmark, (byte) => byte | small);
    (index[lowered[1] as number] ??= []).push({ landmark, lowered });
  }
  return Array.from({ length: 256 }, (_, byte) => index[byte]);
}

export const noLandmarks: LandmarkIndex = [];

function startsWith(bytes: Buffer, lowered: Uint8Array, at: number): boolean {
  for (let index = 0; index < lowered.length; index += 1) {
    if (((bytes[at + index] as number) | small) !== lowered[index]) return false;
  }
  return true;
}

/** Notes the landmarks with which the string at a place begins. */
export function noteLandmarks(bytes: Buffer, at: number, index: LandmarkIndex, met: Landmark[]): void {
  const entries = index[(bytes[at + 1] as number) | small];
  if (entries === undefined) return;
  for (const { landmark, lowered } of entries) {
    if (startsWith(bytes, lowered, at) && !met.includes(landmark)) met.push(landmark);
  }
}
