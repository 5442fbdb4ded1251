// Anthropic's blocks come one after the other. Some compatible servers begin one before the last has ended, and mix
// what comes of both by their index: what is of a later block waits for its turn. Others never say that one has ended.

// More than any blocks that a server mixes; beyond it nothing waits any more.
const mostHeldCharacters = 1_048_576;
// What a step takes beside its event.
const stepCharacters = 128;
// So many steps of later blocks, and none between them of the one whose turn it is: that one has ended.
const mostSilentSteps = 64;

type Waiting = { steps: (() => void)[]; isOver: boolean };

export type BlockTurns = {
  /** The number of the block whose turn it is; undefined: the last one has ended, or none has begun. */
  current: unknown;
  waiting: Map<unknown, Waiting>;
  heldCharacters: number;
  /** What was kept since the block whose turn it is was heard of. */
  silentSteps: number;
};

export const createBlockTurns = (): BlockTurns => ({
  current: undefined,
  waiting: new Map(),
  heldCharacters: 0,
  silentSteps: 0,
});

/** Notes that something came of the block whose turn it is. */
export const noteCurrent = (turns: BlockTurns): void => {
  turns.silentSteps = 0;
};

/** Whether the block whose turn it is must have ended, of which nobody has said so. */
export const hasEnded = ({ silentSteps }: BlockTurns): boolean => silentSteps >= mostSilentSteps;

/** Whether a block that starts now has to wait. */
export const startsLater = ({ current }: BlockTurns, index: unknown): boolean =>
  typeof index === "number" && typeof current === "number" && index !== current;

/** Keeps a step for the turn of its block; false where too much waits. */
export function keepStep(turns: BlockTurns, index: unknown, step: () => void, characters: number): boolean {
  const waiting = turns.waiting.get(index) ?? { steps: [], isOver: false };
  turns.waiting.set(index, waiting);
  waiting.steps.push(step);
  turns.heldCharacters += characters + stepCharacters;
  turns.silentSteps += 1;
  return turns.heldCharacters <= mostHeldCharacters;
}

/**
 * The block whose turn it was has ended: takes the steps of those that wait, and ends them, until one of them goes on;
 * `isLast`: nothing more comes of any.
 */
export function passTurn(turns: BlockTurns, end: () => void, isLast: boolean): void {
  turns.current = undefined;
  turns.silentSteps = 0;
  for (const [index, { steps, isOver }] of turns.waiting) {
    turns.waiting.delete(index);
    for (const step of steps) step();
    if (!isOver && !isLast) {
      turns.current = index;
      break;
    }
    end();
  }
  if (turns.waiting.size === 0) turns.heldCharacters = 0;
}
