import { v7 } from "uuid";

/** Makes the id of a call: a UUIDv7, so that its time can be read from it. */
export function createRid(): string {
  return v7();
}

const ridPattern = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Milliseconds since 1970 of a rid, or undefined when it is not a lower-case UUIDv7. */
export function ridTimeMs(rid: string): number | undefined {
  const match = ridPattern.exec(rid);
  return match ? Number.parseInt(`${match[1]}${match[2]}`, 16) : undefined;
}
