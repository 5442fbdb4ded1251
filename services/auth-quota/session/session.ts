import type { ServerDuplexStream, UntypedHandleCall } from "@grpc/grpc-js";
import { errorTable, type ErrorCode } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Decide } from "./decide.ts";
import type { SessionResponse, SessionRequest } from "./session-wire.ts";

type Stream = ServerDuplexStream<SessionRequest, SessionResponse>;

/** The streams of the relays. */
export type Sessions = {
  handler: UntypedHandleCall;
  /**
   * Asks the relays to move to another replica and keeps deciding for each until it has moved. After half of `drainMs`,
   * remaining streams take no more batches, answer those under way and end. Waits at most `drainMs` for all streams
   * to close.
   */
  end: (drainMs: number) => Promise<void>;
  isEnding: () => boolean;
  open: () => number;
};

const maxOperations = 512;
const maxInFlight = 64;
const sessionPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** One stream while it is open. */
type Line = { stream: Stream; relaySession: string; inFlight: number; isEnding: boolean; ended: Promise<void> };

/** `isMaintenance` goes into every response; undefined while unknown. */
export function createSessions(decide: Decide, isMaintenance: () => boolean | undefined, log: Logger): Sessions {
  const lines = new Set<Line>();
  let isEnding = false;
  const answer = async ({ batch, relaySession, operations }: SessionRequest): Promise<SessionResponse> => {
    const decided = await decide(relaySession, operations);
    return { batch, ...decided, isMaintenance: isMaintenance(), isStopping: isEnding };
  };
  const tellStopping = ({ stream }: Line): void => {
    if (!stream.writable) return;
    stream.write({
      batch: 0,
      results: [],
      generation: "",
      isMaintenance: isMaintenance(),
      isStopping: true,
      timeMs: 0,
      recalledLeases: [],
    });
  };
  const open = (stream: Stream): void => {
    if (isEnding) return fail(stream, "unavailable", "this replica is stopping");
    const ended = new Promise<void>((resolve) => stream.once("close", resolve));
    const line: Line = { stream, relaySession: "", inFlight: 0, isEnding: false, ended };
    lines.add(line);
    stream.once("close", () => lines.delete(line));
    stream.on("error", (error: Error) => log.info({ err: error, relaySession: line.relaySession }, "session ended"));
    stream.on("drain", () => resume(line));
    stream.on("end", () => endWhenIdle(line));
    stream.on("data", (request: SessionRequest) => take(line, request, answer));
  };
  return {
    handler: open as UntypedHandleCall,
    isEnding: () => isEnding,
    open: () => lines.size,
    end: async (drainMs) => {
      isEnding = true;
      if (lines.size > 0) log.info({ relays: lines.size }, "handing relays over to another replica");
      for (const line of lines) tellStopping(line);
      await allEnded(lines, drainMs / 2);
      if (lines.size > 0) log.warn({ relays: lines.size }, "relays found no other replica, ending their streams");
      for (const line of lines) endWhenIdle(line);
      await allEnded(lines, drainMs / 2);
    },
  };
}

async function allEnded(lines: ReadonlySet<Line>, maxMs: number): Promise<void> {
  const tooLong = Promise.withResolvers<void>();
  const timer = setTimeout(tooLong.resolve, maxMs);
  await Promise.race([tooLong.promise, Promise.all([...lines].map((line) => line.ended))]);
  clearTimeout(timer);
}

/** Starts a batch. Batches overlap; a relay that sends faster than they are answered gets back-pressure. */
function take(
  line: Line,
  request: SessionRequest,
  answer: (request: SessionRequest) => Promise<SessionResponse>,
): void {
  if (line.isEnding) return;
  const problem = problemOf(line, request);
  if (problem) return fail(line.stream, "invalid_argument", problem);
  line.relaySession = request.relaySession;
  line.inFlight += 1;
  if (line.inFlight >= maxInFlight) line.stream.pause();
  answer(request).then(
    (response) => {
      if (line.stream.writable) line.stream.write(response);
      leave(line);
    },
    // It never rejects; should it do so, the relay must not wait for ever.
    (error: unknown) => {
      line.stream.emit("error", error);
      leave(line);
    },
  );
}

/** What is wrong with a request that no correct relay sends. */
function problemOf(line: Line, { relaySession, operations }: SessionRequest): string | undefined {
  if (line.relaySession === "" || relaySession !== line.relaySession) {
    if (!sessionPattern.test(relaySession)) return "relay_session is not an id";
    if (line.relaySession !== "") return "relay_session changed within a stream";
  }
  return operations.length > maxOperations ? `a batch has more than ${maxOperations} operations` : undefined;
}

function leave(line: Line): void {
  line.inFlight -= 1;
  if (line.isEnding) endWhenIdle(line);
  else resume(line);
}

function resume({ stream, inFlight }: Line): void {
  if (stream.writableNeedDrain) stream.pause();
  else if (inFlight < maxInFlight && stream.isPaused()) stream.resume();
}

function endWhenIdle(line: Line): void {
  line.isEnding = true;
  if (line.inFlight === 0) line.stream.end();
}

function fail(stream: Stream, code: ErrorCode, details: string): void {
  stream.emit("error", { code: errorTable[code].grpcStatus, details });
}
