const prime = 0x01000193;
const lanes = [0x811c9dc5, 0x9e3779b9, 0x85ebca6b, 0xc2b2ae35] as const;

/** 128 bits of FNV-1a in four lanes, as 32 hexadecimal digits. For names that must be stable, not for secrets. */
export function stableHash(text: string): string {
  return lanes
    .map((seed, lane) => {
      let hash: number = seed;
      for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ (text.charCodeAt(at) + lane), prime);
      return (hash >>> 0).toString(16).padStart(8, "0");
    })
    .join("");
}

const accepted = /^[\w-]{1,64}$/;

/**
 * The id of a tool's call as every provider takes it: at most 64 of A-Z, a-z, 0-9, _ and -. Another id is hashed, the
 * same way for the call and for its result.
 */
export const callIdFor = (id: string): string => (accepted.test(id) ? id : `call_${stableHash(id)}`);
