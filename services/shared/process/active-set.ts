/** Can be a member of one active set at a time and remembers its index there; -1: in none. */
export type ActiveMember = { activeIndex: number };

/** What is under way: a set of members that come and go. */
export type ActiveSet<T> = Iterable<T> & {
  readonly size: number;
  add: (member: T) => unknown;
  /** Whether it was a member. */
  delete: (member: T) => boolean;
};

/**
 * A set for members that come and go by the thousand in a second. A Set would keep them all: V8 links the table that
 * a Set or a Map has outgrown to the next one, so that once one of these tables has become old, whatever was ever in
 * the later ones stays in memory until the next full collection, and is copied around until then.
 */
export function createActiveSet<T extends ActiveMember>(): ActiveSet<T> {
  const members: T[] = [];
  return {
    get size() {
      return members.length;
    },
    add: (member) => {
      if (member.activeIndex === -1) member.activeIndex = members.push(member) - 1;
    },
    delete: (member) => {
      const { activeIndex } = member;
      if (activeIndex === -1) return false;
      member.activeIndex = -1;
      const last = members.pop();
      if (last === undefined || last === member) return true;
      last.activeIndex = activeIndex;
      members[activeIndex] = last;
      return true;
    },
    // Iterates over a copy: members may come and go meanwhile.
    [Symbol.iterator]: () => [...members][Symbol.iterator](),
  };
}
