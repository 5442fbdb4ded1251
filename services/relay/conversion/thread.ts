import { setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { CallFailure, type Failure } from "../failures.ts";
import type { Answer, Order, Taken } from "../threads/messages.ts";
import { type Done, SessionWork } from "./session-work.ts";

// A thread that works on large bodies; see threads/threads.ts. Whoever waits for the event loop goes first: on Linux
// this is the priority of the thread alone.
if (process.platform === "linux") setPriority(5);

const sessions = new Map<number, SessionWork>();

function sessionOf(id: number): SessionWork {
  let found = sessions.get(id);
  if (!found) sessions.set(id, (found = new SessionWork()));
  return found;
}

/** Causes are for the log, and must travel. */
function failureOf(thrown: unknown): Failure {
  const { failure } = thrown instanceof CallFailure ? thrown : { failure: undefined };
  if (!failure) return { name: "service_unavailable", cause: thrown instanceof Error ? thrown.stack : String(thrown) };
  return { ...failure, cause: failure.cause instanceof Error ? failure.cause.message : failure.cause };
}

function answerTo(order: Extract<Order, { work: unknown }>): void {
  let done: Done;
  try {
    done = sessionOf(order.session).do(order.work);
  } catch (thrown) {
    parentPort?.postMessage({ failure: failureOf(thrown) } satisfies Answer);
    return;
  }
  parentPort?.postMessage({ told: done.told } satisfies Answer, done.transfer);
}

const toldBytes = 1_048_576;
let takenBytes = 0;

function take({ session, side, piece }: Extract<Order, { piece: unknown }>): void {
  // Before it is given back.
  takenBytes += piece.byteLength;
  sessionOf(session).add(side, piece);
  if (takenBytes < toldBytes) return;
  parentPort?.postMessage({ taken: takenBytes } satisfies Taken);
  takenBytes = 0;
}

parentPort?.on("message", (order: Order) => {
  if ("piece" in order) take(order);
  else if ("work" in order) answerTo(order);
  else {
    sessions.get(order.session)?.forget();
    sessions.delete(order.session);
  }
});
