/** Something that is to happen at an instant of virtual time. */
export type Timer = {
  atMs: number;
  /** Goes before all else of its instant. */
  isImmediate: boolean;
  /** Of two of one instant the one that was set first goes first. */
  number: number;
  /** After how long it comes again; undefined: it comes once. */
  everyMs: number | undefined;
  work: () => void;
  /** Whether it was cleared, or what set it is dead; then it is left out. */
  isOver: () => boolean;
};

export type Timers = {
  add: (timer: Timer) => void;
  /** Takes the next one; undefined when there is none. */
  take: () => Timer | undefined;
  clear: () => void;
  /** Nothing comes before an instant: what was due earlier is due then. */
  delay: (untilMs: number) => void;
};

/** A heap: the timer that is due next is first. */
export function createTimers(): Timers {
  let heap: Timer[] = [];
  return {
    add: (timer) => {
      heap.push(timer);
      rise(heap, heap.length - 1);
    },
    take: () => {
      while (heap.length > 0) {
        const first = takeFirst(heap);
        if (!first.isOver()) return first;
      }
      return undefined;
    },
    clear: () => void (heap = []),
    delay: (untilMs) => {
      for (const timer of heap) timer.atMs = Math.max(timer.atMs, untilMs);
      heap = heap.toSorted((one, other) => (isBefore(one, other) ? -1 : 1));
    },
  };
}

function isBefore(one: Timer, other: Timer): boolean {
  if (one.atMs !== other.atMs) return one.atMs < other.atMs;
  if (one.isImmediate !== other.isImmediate) return one.isImmediate;
  return one.number < other.number;
}

function rise(heap: Timer[], from: number): void {
  const timer = heap[from] as Timer;
  let at = from;
  while (at > 0) {
    const above = (at - 1) >> 1;
    const parent = heap[above] as Timer;
    if (!isBefore(timer, parent)) break;
    heap[at] = parent;
    at = above;
  }
  heap[at] = timer;
}

function takeFirst(heap: Timer[]): Timer {
  const first = heap[0] as Timer;
  const last = heap.pop() as Timer;
  if (heap.length > 0) sink(heap, last);
  return first;
}

/** Puts a timer in the place of the first one, and lets it go down to where it belongs. */
function sink(heap: Timer[], timer: Timer): void {
  let at = 0;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= heap.length) break;
    if (below + 1 < heap.length && isBefore(heap[below + 1] as Timer, heap[below] as Timer)) below += 1;
    const child = heap[below] as Timer;
    if (!isBefore(child, timer)) break;
    heap[at] = child;
    at = below;
  }
  heap[at] = timer;
}
