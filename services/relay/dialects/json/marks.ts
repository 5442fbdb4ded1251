// Ends of lines, and what stands before a value of JSON.
const marks = [",", "[", "{", "\n", "\r"].map((mark) => mark.charCodeAt(0));

/**
 * Whether a text has more marks of values and lines than `most`, those in its strings included. Whoever parses it makes
 * an object or a string for each; to find that out takes a few milliseconds, however long the text is.
 */
export function hasManyMarks(bytes: Buffer, most: number): boolean {
  if (bytes.length <= most) return false;
  let count = 0;
  for (const mark of marks) {
    for (let at = bytes.indexOf(mark); at !== -1; at = bytes.indexOf(mark, at + 1)) {
      count += 1;
      if (count > most) return true;
    }
  }
  return false;
}
