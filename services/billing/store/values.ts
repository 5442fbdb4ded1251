/** Collects the values of a statement; gives their names in it. */
export function createValues(): { all: unknown[]; name: (value: unknown) => string } {
  const all: unknown[] = [];
  return { all, name: (value) => `$${all.push(value)}` };
}
