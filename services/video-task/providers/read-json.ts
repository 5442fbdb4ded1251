/** A field of what may be an object; undefined for whatever else it is. */
export const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Of JSON's numbers and texts; NaN for whatever else it is: an object may not be convertible at all. */
export const numberOf = (value: unknown): number =>
  typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
