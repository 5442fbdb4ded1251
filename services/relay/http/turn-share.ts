// What is read of all streams in one turn of the event loop: fifty upstreams that send as fast as they are read would
// else keep everybody waiting for as long as all their pieces take.
const shareMs = 3;
// Honest streams bring less in a turn, and never wait for those that bring more.
const freeBytes = 8_192;

// Node does what promises wait for between two of its immediates, so each waiting step has one: what a step begins, as
// all of a call until it is sent, is of its turn's time before the next step is looked at.
const maxPlanned = 64;

let turn = 0;
let startedAtMs = 0;
let isBegun = false;
let planned = 0;
/** When the first of the planned steps began; undefined before. */
let stepsAtMs: number | undefined;
/** Whether a step of this callback has begun more than was done in it. */
let isLoaded = false;
const waiting: TurnShare[] = [];

function beginTurn(): void {
  if (isBegun) return;
  isBegun = true;
  turn += 1;
  startedAtMs = performance.now();
  setImmediate(endTurn);
}

function endTurn(): void {
  isBegun = false;
}

const isSpent = (sinceMs: number): boolean => performance.now() - sinceMs > shareMs;

function planSteps(): void {
  if (planned > 0) return;
  planned = Math.min(waiting.length, maxPlanned);
  stepsAtMs = undefined;
  for (let count = 0; count < planned; count += 1) setImmediate(doPlanned);
}

/** Does the step that has waited longest, while there is room for it. */
function doPlanned(): void {
  planned -= 1;
  const isFirst = stepsAtMs === undefined;
  stepsAtMs ??= performance.now();
  if (isFirst || !isSpent(stepsAtMs)) waiting.shift()?.goOn();
  if (planned > 0) return;
  // What comes now from the network has a share of its own.
  isBegun = false;
  planSteps();
}

function unload(): void {
  isLoaded = false;
}

export type Pausable = { pause: () => void; resume: () => void };

/** Does the steps of one stream in their order; those that are too much for this turn in a later one. */
export class TurnShare {
  private readonly source: Pausable;
  private steps: (() => void)[] = [];
  private turn = 0;
  private bytes = 0;

  constructor(source: Pausable) {
    this.source = source;
  }

  /**
   * Does a step that reads so many bytes, now or later; one of infinitely many begins more than it does, and waits
   * behind another one of the same callback.
   */
  take(bytes: number, step: () => void): void {
    beginTurn();
    if (this.turn !== turn) [this.turn, this.bytes] = [turn, 0];
    this.bytes += bytes;
    if (this.steps.length === 0 && this.hasRoom(bytes)) return this.begin(bytes, step);
    if (this.steps.length === 0) this.wait();
    this.steps.push(step);
  }

  private hasRoom(bytes: number): boolean {
    return this.bytes <= freeBytes || !((isLoaded && bytes === Infinity) || isSpent(startedAtMs));
  }

  private begin(bytes: number, step: () => void): void {
    if (bytes === Infinity && !isLoaded) {
      isLoaded = true;
      queueMicrotask(unload);
    }
    step();
  }

  /** Does the step that came first, and waits again where there are more; what comes meanwhile is behind it. */
  goOn(): void {
    this.steps[0]?.();
    this.steps.shift();
    if (this.steps.length > 0) waiting.push(this);
    else this.source.resume();
  }

  private wait(): void {
    waiting.push(this);
    planSteps();
    this.source.pause();
  }
}

const nobody: Pausable = { pause: () => undefined, resume: () => undefined };

/** Does a step in this turn, or in a later one that has room for it; settles as the step does. */
export function inTurn(step: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    new TurnShare(nobody).take(Infinity, () => {
      try {
        step();
        resolve();
      } catch (thrown) {
        reject(thrown as Error);
      }
    });
  });
}

/**
 * Settles in a turn that has room for work that cannot be done in pieces, such as reading a whole answer; undefined
 * where this one has. Hundreds of answers may come in one turn.
 */
export function roomInTurn(): Promise<void> | undefined {
  beginTurn();
  return waiting.length === 0 && !isSpent(startedAtMs) ? undefined : inTurn(() => undefined);
}
