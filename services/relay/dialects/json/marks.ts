// Ends of lines, and what stands before a value of JSON.
const marks = [",", "[", "{", "\n", "\r"].map((mark) => mark.charCodeAt(0));
const isMark = Uint8Array.from({ length: 256 }, (_, byte) => (marks.includes(byte) ? 1 : 0));
// Where marks are far apart the search finds the next one fastest; where they are not, each search costs more than
// looking at so many bytes.
const blockBytes = 8_192;

/**
 * Whether a text has more marks of values and lines than `most`, those in its strings included. Whoever parses it makes
 * an object or a string for each; to find that out takes a few milliseconds, however long the text is.
 */
export function hasManyMarks(bytes: Buffer, most: number): boolean {
  if (bytes.length <= most) return false;
  let count = 0;
  for (let from = 0; from < bytes.length; from += blockBytes) {
    const block = bytes.subarray(from, from + blockBytes);
    if (!marks.some((mark) => block.includes(mark))) continue;
    for (let at = 0; at < block.length; at += 1) count += isMark[block[at] as number] as number;
    if (count > most) return true;
  }
  return false;
}
