/** What is in one roster at a time and remembers its place in it; -1: in none. */
export type Placed = { place: number };

/** What is under way: a set of members that come and go. */
export type Roster<T> = Iterable<T> & {
  readonly size: number;
  add: (member: T) => unknown;
  delete: (member: T) => unknown;
};

/**
 * A roster for members that come and go by the thousand in a second. A Set would keep them all: V8 links the table that
 * a Set or a Map has outgrown to the next one, so that once one of these tables has become old, whatever was ever in
 * the later ones stays in memory until the next full collection, and is copied around until then.
 */
export function createRoster<T extends Placed>(): Roster<T> {
  const members: T[] = [];
  return {
    get size() {
      return members.length;
    },
    add: (member) => {
      if (member.place === -1) member.place = members.push(member) - 1;
    },
    delete: (member) => {
      const { place } = member;
      if (place === -1) return;
      member.place = -1;
      const last = members.pop();
      if (last === undefined || last === member) return;
      last.place = place;
      members[place] = last;
    },
    // Of those at the beginning, for members come and go while they are looked through.
    [Symbol.iterator]: () => [...members][Symbol.iterator](),
  };
}
