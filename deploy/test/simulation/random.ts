/** Numbers that depend on nothing but a seed. */
export type Random = {
  /** From 0 up to, not including, 1. */
  next: () => number;
  /** A whole number from `least` to `most`. */
  between: (least: number, most: number) => number;
  chance: (probability: number) => boolean;
  pick: <T>(list: readonly T[]) => T;
  /** Another sequence, which what is drawn here later does not change. */
  fork: () => Random;
};

/** The generator "mulberry32": small, fast, and good enough to pick faults by. */
export function createRandom(seed: number): Random {
  let state = Math.imul(seed + 1, 0x9e37_79b1) | 0;
  const next = (): number => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    chance: (probability) => next() < probability,
    pick: <T>(list: readonly T[]) => {
      const picked = list[Math.floor(next() * list.length)];
      if (picked === undefined) throw new Error("nothing to pick from");
      return picked;
    },
    fork: () => createRandom(Math.floor(next() * 4_294_967_296)),
  };
}
