/** A text that begins and ends like this and is filled up with one unit between, to at most so many bytes. */
export function filled({ start, unit, end }: { start: string; unit: string; end: string }, bytes: number): Buffer {
  const [first, one, last] = [Buffer.from(start), Buffer.from(unit), Buffer.from(end)];
  const units = Math.floor((bytes - first.length - last.length) / one.length);
  return Buffer.concat([first, Buffer.alloc(units * one.length, one), last]);
}

export const mebibyte = 1024 * 1024;
