/** A field of what may be an object; undefined for whatever else it is. */
export const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
