import { hkdfSync } from "node:crypto";
import type { Upstream } from "#shared/catalog/upstreams.ts";

const keyBytes = 32;

/**
 * Derives keys of 32 bytes for one purpose, which must be no other's, from an upstream's credential: the same in every
 * process, with none to share or rotate.
 */
export function keysFor(purpose: string): (upstream: Upstream) => Uint8Array {
  const keys = new WeakMap<Upstream, Uint8Array>();
  return (upstream) => {
    const known = keys.get(upstream);
    if (known) return known;
    const key = new Uint8Array(hkdfSync("sha256", upstream.credential, upstream.name, purpose, keyBytes));
    keys.set(upstream, key);
    return key;
  };
}
