import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Logger } from "#shared/process/log.ts";
import { CallFailure } from "../failures.ts";
import type { Metrics } from "../metrics.ts";
import type { Answer, Order, Side, Taken, WorkResults, Work } from "./messages.ts";

/** A body, or an answer, from here on is worked on in a thread: reading it would be felt by everybody else. */
export const largeBytes = 256 * 1024;

/** JSON of few values is scanned on the event loop up to here: that takes less than handing it to a thread. */
export const longBytes = 1024 * 1024;

/** So are bodies of that many values where all of them are read: 2 µs each. */
export const manyValues = 4_000;

/** Pieces of work that wait in all, and of one account. */
const mostWaiting = 64;
const mostOfAccount = mostWaiting / 2;
const mostThreads = 2;
/** A thread that nobody needs for so long ends, which is how it gives back all of its memory. */
const idleMs = 5_000;
const blockBytes = 64 * 1024;
/** What is smaller is put together first: telling another thread of something costs as much as copying this. */
const pieceBytes = 16 * 1024;
/**
 * Bytes on their way to threads. A thread goes behind the event loop, so that bodies come faster than it takes them;
 * those of requests that were refused long ago would fill the memory.
 */
const mostUntakenBytes = 16 * 1024 * 1024;

type Job = {
  account: string;
  order: Extract<Order, { work: unknown }>;
  queuedAtMs: number;
  settle: (answer: Answer) => void;
};

export type ThreadCounts = {
  waitedSeconds: (seconds: number) => void;
  workedSeconds: (seconds: number) => void;
  refused: () => void;
  /** A thread has ended by itself: what it was working on took too much memory, or broke it. */
  ended: (error: unknown) => void;
};

const busy = (): CallFailure =>
  new CallFailure({ name: "service_unavailable", cause: "too many large bodies wait to be read" });

const broken = { failure: { name: "service_unavailable", cause: "the thread that read the body has ended" } } as const;

/** Whether a thread has ended with what it was asked to do. */
export const isThreadEnd = (thrown: unknown): boolean =>
  thrown instanceof CallFailure && thrown.failure.cause === broken.failure.cause;

/** One thread, which is started when it is first needed, and again when it has ended. */
class Thread {
  sessions = 0;
  private idleTimer: NodeJS.Timeout | undefined;
  /** Which life of the thread it is: a session of an earlier one is lost. */
  life = 0;
  untakenBytes = 0;
  readonly waiting: Job[] = [];
  private current: Job | undefined;
  private startedAtMs = 0;
  private worker: Worker | undefined;
  private readonly counts: ThreadCounts;
  private readonly onTaken: () => void;

  constructor(counts: ThreadCounts, onTaken: () => void) {
    this.counts = counts;
    this.onTaken = onTaken;
  }

  enter(): void {
    this.sessions += 1;
    clearTimeout(this.idleTimer);
  }

  leave(): void {
    this.sessions -= 1;
    if (this.sessions === 0) this.idleTimer = setTimeout(() => void this.end(), idleMs).unref();
  }

  post(order: Order, transfer: ArrayBuffer[] = []): void {
    if ("piece" in order) this.untakenBytes += order.piece.byteLength;
    this.start().postMessage(order, transfer);
  }

  enqueue(job: Job): void {
    this.waiting.push(job);
    this.next();
  }

  /** Ends the thread; whatever comes next starts another one. */
  async end(): Promise<void> {
    clearTimeout(this.idleTimer);
    const { worker } = this;
    this.lose();
    await worker?.terminate();
  }

  private start(): Worker {
    if (this.worker) return this.worker;
    const worker = new Worker(new URL("../conversion/thread.ts", import.meta.url), { name: "large bodies" });
    worker.unref();
    worker.on("message", (answer: Answer | Taken) => {
      if (worker !== this.worker) return;
      if (!("taken" in answer)) return this.take(answer);
      this.untakenBytes -= answer.taken;
      this.onTaken();
    });
    worker.on("error", (error) => this.counts.ended(error));
    worker.on("exit", () => {
      if (worker === this.worker) this.lose();
    });
    return (this.worker = worker);
  }

  private next(): void {
    if (this.current) return;
    this.current = this.waiting.shift();
    if (!this.current) {
      this.worker?.unref();
      return;
    }
    this.startedAtMs = performance.now();
    this.counts.waitedSeconds((this.startedAtMs - this.current.queuedAtMs) / 1_000);
    this.post(this.current.order);
    this.worker?.ref();
  }

  private take(answer: Answer): void {
    const job = this.current;
    this.current = undefined;
    this.counts.workedSeconds((performance.now() - this.startedAtMs) / 1_000);
    this.next();
    job?.settle(answer);
  }

  private lose(): void {
    this.worker = undefined;
    this.life += 1;
    this.untakenBytes = 0;
    this.onTaken();
    const lost = [...(this.current ? [this.current] : []), ...this.waiting.splice(0)];
    this.current = undefined;
    for (const job of lost) job.settle(broken);
  }
}

/** Work on an answer, whose provider has done its own: it never waits outside, and is done for the bill in any case. */
const isOnAnswer = ({ kind }: Work): boolean => kind === "reply" || kind === "overflow" || kind === "tally";

/** The bytes of one call in a thread. */
export class ThreadSession {
  private readonly block: Record<Side, { bytes: Buffer; length: number }> = {
    request: { bytes: Buffer.alloc(0), length: 0 },
    answer: { bytes: Buffer.alloc(0), length: 0 },
  };
  private readonly life: number;
  private isOver = false;
  private readonly id: number;
  private readonly account: string;
  private readonly thread: Thread;
  private readonly mayWait: (account: string) => boolean;

  constructor(id: number, account: string, thread: Thread, mayWait: (account: string) => boolean) {
    this.id = id;
    this.account = account;
    this.thread = thread;
    this.mayWait = mayWait;
    this.life = thread.life;
    thread.enter();
  }

  /** Takes a piece, whose memory may be given away when it is all of it and `isOwn`. */
  add(side: Side, piece: Buffer, isOwn: boolean): void {
    if (piece.length >= pieceBytes) {
      this.flush(side);
      const isWhole = isOwn && piece.buffer instanceof ArrayBuffer && piece.length === piece.buffer.byteLength;
      return this.post(side, isWhole ? piece : copyOf(piece));
    }
    const { bytes, length } = this.block[side];
    if (length + piece.length > bytes.length) {
      this.flush(side);
      this.block[side] = { bytes: Buffer.allocUnsafeSlow(blockBytes), length: 0 };
    }
    const block = this.block[side];
    block.length += piece.copy(block.bytes, block.length);
  }

  /**
   * Works on what was added. Throws what the work throws; `service_unavailable` when too many wait, or the thread has
   * ended.
   */
  async work<Kind extends keyof WorkResults>(work: Extract<Work, { kind: Kind }>): Promise<WorkResults[Kind]> {
    if (this.isOver || this.life !== this.thread.life) throw new CallFailure(broken.failure);
    if (!isOnAnswer(work) && !this.mayWait(this.account)) throw busy();
    this.flush("request");
    this.flush("answer");
    const order = { session: this.id, work };
    const answer = await new Promise<Answer>((settle) =>
      this.thread.enqueue({ account: this.account, order, queuedAtMs: performance.now(), settle }),
    );
    if ("failure" in answer) throw new CallFailure(answer.failure);
    return answer.told as WorkResults[Kind];
  }

  /** Gives up work on a request that waits: its caller has left. An answer is read for the bill all the same. */
  cancel(): void {
    const { waiting } = this.thread;
    for (const job of waiting.filter(({ order }) => order.session === this.id && !isOnAnswer(order.work))) {
      waiting.splice(waiting.indexOf(job), 1);
      job.settle(broken);
    }
  }

  /** Lets go of all of it. */
  forget(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.thread.leave();
    this.cancel();
    if (this.life === this.thread.life) this.thread.post({ session: this.id, isOver: true });
  }

  private flush(side: Side): void {
    const block = this.block[side];
    if (block.length === 0) return;
    const { bytes, length } = block;
    this.block[side] = { bytes: Buffer.alloc(0), length: 0 };
    this.post(side, length === bytes.length ? bytes : copyOf(bytes.subarray(0, length)));
  }

  private post(side: Side, piece: Buffer): void {
    if (this.isOver || this.life !== this.thread.life) return;
    this.thread.post({ session: this.id, side, piece }, [piece.buffer as ArrayBuffer]);
  }
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

/** Threads that work on large bodies and answers, beside the event loop. */
export type Threads = AsyncDisposable & {
  /** Opens a session, which whoever opened it must forget. */
  open: (account: string) => ThreadSession;
  /** Pieces of work that wait. */
  waiting: () => number;
  /** Whether threads take what comes; where they do not, `goOn` is called once they do. */
  keepUp: (goOn: () => void) => boolean;
};

/** Counts what threads do in metrics, and tells the log of one that ended. */
export const countThreads = (metrics: Metrics, log: Logger): ThreadCounts => ({
  waitedSeconds: (seconds) => metrics.threadWaitSeconds.observe(seconds),
  workedSeconds: (seconds) => metrics.threadWorkSeconds.observe(seconds),
  refused: () => metrics.threadRefusals.inc(),
  ended: (error) => {
    metrics.threadEnds.inc();
    log.error({ err: error }, "a thread for large bodies has ended");
  },
});

export function createThreads(counts: ThreadCounts): Threads {
  // A core is left to the event loop.
  const count = Math.max(1, Math.min(mostThreads, availableParallelism() - 1));
  let held: (() => void)[] = [];
  const untakenBytes = (): number => threads.reduce((sum, thread) => sum + thread.untakenBytes, 0);
  const onTaken = (): void => {
    if (held.length === 0 || untakenBytes() > mostUntakenBytes / 2) return;
    const released = held;
    held = [];
    for (const goOn of released) goOn();
  };
  const threads = Array.from({ length: count }, () => new Thread(counts, onTaken));
  let ids = 0;
  const waiting = (): Job[] => threads.flatMap((thread) => thread.waiting);
  const mayWait = (account: string): boolean => {
    const all = waiting();
    const isRoom = all.length < mostWaiting && all.filter((job) => job.account === account).length < mostOfAccount;
    if (!isRoom) counts.refused();
    return isRoom;
  };
  return {
    open: (account) => {
      const thread = threads.reduce((least, other) => (other.sessions < least.sessions ? other : least));
      ids += 1;
      return new ThreadSession(ids, account, thread, mayWait);
    },
    waiting: () => waiting().length,
    keepUp: (goOn) => {
      if (untakenBytes() <= mostUntakenBytes) return true;
      held.push(goOn);
      return false;
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all(threads.map((thread) => thread.end()))),
  };
}
