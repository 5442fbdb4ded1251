import { connect, type Socket } from "node:net";
import { createAnswerReader } from "./answer-reader.ts";
import { createChecker, type Expectation } from "./verdict.ts";

const reconnectMs = 50;
const silenceMs = 30_000;
// An idle stream says nothing while calls are measured beside it.
const idleSilenceMs = 300_000;

/** What a caller tells of its calls. */
export type CallerHooks = {
  /** It may call now, for the first time or after an answer. */
  onReady: (caller: Caller) => void;
  onWhole: (elapsedUs: number) => void;
  onBroken: (complaint: string) => void;
  /** The first record of a stream has come. */
  onFirst: (elapsedUs: number) => void;
  onRecords: (records: number) => void;
  onInstant: (instantUs: number) => void;
  onClosed: (caller: Caller) => void;
};

/** One kept-alive connection with one call at a time. */
export type Caller = {
  /** Sends a request; its time counts from `sinceUs`. */
  call: (request: Buffer, sinceUs: number) => void;
  end: () => void;
};

/** Microseconds of the machine's monotonic clock. */
export const nowUs = (): number => Number(process.hrtime.bigint() / 1_000n);

/** Opens a connection to a loopback port; every answer is checked. */
export function openCaller(port: number, expected: Expectation, hooks: CallerHooks): Caller {
  let startedUs = 0;
  let isCalling = false;
  let hasRecords = false;
  const socket: Socket = connect({ port, host: "127.0.0.1", noDelay: true });
  const checker = createChecker(expected, hooks.onInstant);
  const caller: Caller = {
    call: (request, sinceUs) => {
      isCalling = true;
      hasRecords = false;
      startedUs = sinceUs;
      socket.write(request);
    },
    end: () => void socket.end(),
  };
  const read = createAnswerReader({
    onHead: checker.begin,
    onPayload: (part) => {
      const records = checker.look(part);
      if (records > 0 && !hasRecords) hooks.onFirst(nowUs() - startedUs);
      hasRecords ||= records > 0;
      hooks.onRecords(records);
    },
    onEnd: () => {
      isCalling = false;
      const complaint = checker.complaint();
      if (complaint === "") hooks.onWhole(nowUs() - startedUs);
      else hooks.onBroken(complaint);
      // A refusal would otherwise be asked for as fast as this machine can.
      if (complaint) setTimeout(hooks.onReady, reconnectMs, caller);
      else hooks.onReady(caller);
    },
  });
  socket.on("connect", () => hooks.onReady(caller));
  socket.on("data", (bytes) => {
    try {
      read(bytes);
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
  const patienceMs = expected.kind === "idle" ? idleSilenceMs : silenceMs;
  socket.setTimeout(patienceMs, () => socket.destroy(new Error(`silent for ${patienceMs} ms`)));
  socket.on("error", (error) => hooks.onBroken(error.message));
  socket.on("close", (hadError) => {
    if (isCalling && !hadError) hooks.onBroken("the connection closed within an answer");
    setTimeout(hooks.onClosed, reconnectMs, caller);
  });
  return caller;
}
