const plainName = /^[a-z0-9_]+$/;

/** Whether every reader takes a name as it stands. */
export const isPlain = (name: string): boolean => plainName.test(name);

/**
 * A name as the most lenient reader takes it. Go's encoding/json compares by simple folding, in which ſ is s and the
 * sign of Kelvin is k; readers of protobuf take `maxTokens` for max_tokens; some end a name at NUL, or leave out bytes
 * that are no text.
 */
export function folded(name: string): string {
  const [read = ""] = name.split("\0");
  return read
    .toUpperCase()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "");
}
