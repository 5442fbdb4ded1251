/** Places for work that runs at once: how many there are, and how many one person may take. */
export type Slots = {
  /** Takes one and tells how to leave it; undefined when none is free. */
  take: (personId: string) => (() => void) | undefined;
};

export function createSlots({ inAll, ofOne }: { inAll: number; ofOne: number }): Slots {
  const taken = new Set<{ personId: string }>();
  return {
    take: (personId) => {
      const own = [...taken].filter((place) => place.personId === personId).length;
      if (taken.size >= inAll || own >= ofOne) return undefined;
      const place = { personId };
      taken.add(place);
      return () => void taken.delete(place);
    },
  };
}
