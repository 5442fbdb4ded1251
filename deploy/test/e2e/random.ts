/** Numbers that look random and are the same for the same seed. */
export type Random = {
  /** A whole number from `least` to `most`, both included. */
  between: (least: number, most: number) => number;
  /** True in `percent` of 100 cases. */
  chance: (percent: number) => boolean;
  pick: <T>(choices: readonly T[]) => T;
};

// The constants are those of the generator known as mulberry32.
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const share = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (least: number, most: number): number => least + Math.floor(share() * (most - least + 1));
  return {
    between,
    chance: (percent) => share() * 100 < percent,
    pick: (choices) => {
      const chosen = choices[between(0, choices.length - 1)];
      if (chosen === undefined) throw new RangeError("nothing to pick from");
      return chosen;
    },
  };
}
