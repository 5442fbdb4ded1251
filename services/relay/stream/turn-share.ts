// What is read of all streams in one turn of the event loop: fifty upstreams that send as fast as they are read would
// else keep everybody waiting for as long as all their pieces take.
const shareMs = 5;
// Honest streams bring less in a turn, and never wait for those that bring more.
const freeBytes = 8_192;

let turn = 0;
let startedAtMs = 0;
let isBegun = false;
let isScheduled = false;
const waiting: TurnShare[] = [];

function endTurn(): void {
  isBegun = false;
  isScheduled = false;
  if (waiting.length === 0) return;
  beginTurn();
  while (waiting.length > 0 && !isSpent()) (waiting.shift() as TurnShare).goOn();
  // What comes now from the network has a share of its own.
  startedAtMs = performance.now();
}

function beginTurn(): void {
  if (!isBegun) {
    isBegun = true;
    turn += 1;
    startedAtMs = performance.now();
  }
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(endTurn);
}

const isSpent = (): boolean => performance.now() - startedAtMs > shareMs;

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

  /** Does a step that reads so many bytes, now or later. */
  take(bytes: number, step: () => void): void {
    beginTurn();
    if (this.turn !== turn) [this.turn, this.bytes] = [turn, 0];
    this.bytes += bytes;
    if (this.steps.length === 0 && (this.bytes <= freeBytes || !isSpent())) return step();
    if (this.steps.length === 0) this.wait();
    this.steps.push(step);
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
