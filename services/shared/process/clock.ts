/** Time as the services see it; tests bring their own. */
export type Clock = {
  /** Milliseconds since 1970, for instants that are written down. */
  nowMs: () => number;
};

export const systemClock: Clock = { nowMs: Date.now };

export const dayMs = 86_400_000;
