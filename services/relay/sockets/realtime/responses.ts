import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Relay } from "../../call.ts";
import { settle } from "../../charge/settle.ts";
import { member, stringOf } from "../../dialects/dialect.ts";
import { TallyFold } from "../../dialects/fold-tally.ts";
import { ResponseReader } from "../../dialects/openai-realtime/answers.ts";
import type { SoundFormat } from "../../dialects/openai-realtime/sound.ts";
import { CallFailure } from "../../failures.ts";
import type { CallResponse } from "../../http/exchange.ts";
import type { LiveCall } from "../../live-call.ts";
import { reportCall } from "../../report/report-call.ts";
import { guardStream } from "../../stream/guard.ts";
import type { HeldAhead } from "./held-ahead.ts";
import type { AddedSoFar, SessionContext } from "./session-context.ts";

/** A response of a session that has not ended; `before` is what had been added to the conversation when it began. */
type Running = {
  call: LiveCall;
  reader: ResponseReader;
  format: SoundFormat;
  before: AddedSoFar;
  heardAtMs: number;
};

// A conversation has one at a time, and a few may run beside it.
const maxRunning = 16;
const maxEnded = 64;

/** What the log tells of a session beside its calls. */
export type Reported = { ip: string; socket: string };

// Where a call is told to callers by events, there is no answer of HTTP.
const told = (statusCode: number): CallResponse => ({ headersSent: true, statusCode }) as CallResponse;

/** Closes the books of a call of a session, and reports it. */
export function endCall(relay: Relay, call: LiveCall, endCause: EndCause, { ip, socket }: Reported): void {
  const { rid, startedAtMs, times, endpoint, trace } = call;
  times.upstreamEndedAt = performance.now();
  settle(relay.settling, call, endCause);
  relay.live.delete(call);
  const report = { rid, startedAtMs, times, trace, call, failure: undefined, method: "GET", endpoint, ip, socket };
  reportCall({ ...report, response: told(200) }, relay);
}

// They name an item of a response and not the response, and have nothing of what it says.
const ofItems = new Set(["response.mcp_call.in_progress", "response.mcp_call.completed", "response.mcp_call.failed"]);

/** The id of the response that an event of a session is of; "" for one that names none; undefined for other events. */
export function responseIdOf(event: unknown, type: string): string | undefined {
  if (!type.startsWith("response.") || ofItems.has(type)) return undefined;
  return stringOf(member(event, "response_id")) ?? stringOf(member(member(event, "response"), "id")) ?? "";
}

/** Whether an event of a response as a whole says that it is of the conversation, and not beside it. */
export const isOfConversation = (event: unknown): boolean =>
  stringOf(member(member(event, "response"), "conversation_id")) !== undefined;

/** Whether a response is over because all of it is there. */
export const isWhole = (event: unknown): boolean => member(member(event, "response"), "status") === "completed";

const endCauseOf = (response: unknown): EndCause =>
  member(response, "status") === "failed" ? EndCause.UPSTREAM_ERROR : EndCause.COMPLETE;

/** The responses of a session, each a call of its own: held before it begins, charged when it has ended. */
export class Responses {
  private readonly running = new Map<string, Running>();
  private readonly ended = new Set<string>();
  private readonly relay: Relay;
  private readonly ahead: HeldAhead;
  private readonly reported: Reported;

  constructor(relay: Relay, ahead: HeldAhead, reported: Reported) {
    this.relay = relay;
    this.ahead = ahead;
    this.reported = reported;
  }

  get size(): number {
    return this.running.size;
  }

  get ids(): readonly string[] {
    return [...this.running.keys()];
  }

  /** Begins the call of a response that is new, by its first event. Gives its id. Throws a CallFailure. */
  async begin(id: string, event: unknown, context: SessionContext): Promise<string | undefined> {
    if (this.running.has(id) || this.ended.has(id)) return undefined;
    if (this.running.size >= maxRunning) {
      throw new CallFailure({ name: "upstream_invalid", cause: "more responses at once than a session has" });
    }
    const call = await this.ahead.take();
    call.requested = context.requested();
    const fold = new TallyFold();
    fold.tally = call.tally;
    const reader = new ResponseReader(fold);
    const before = context.begin(isOfConversation(event));
    this.running.set(id, { call, reader, format: context.takeSpoken(), before, heardAtMs: performance.now() });
    return call.rid;
  }

  /** Counts an event; the last one of a response charges it, before its caller has it. Gives the one that is over. */
  read(id: string, event: unknown, type: string): Pick<Running, "call" | "before"> | undefined {
    const running = this.running.get(id);
    if (!running) return undefined;
    const { call, reader, format } = running;
    const nowMs = performance.now();
    running.heardAtMs = nowMs;
    reader.read(event, format);
    if (call.tally.hasContent && call.firstByteAtMs === undefined) {
      call.firstByteAtMs = Date.now();
      call.times.answeredAt = call.times.arrivedAt = call.times.firstByteAt = nowMs;
    }
    if (type !== "response.done") {
      guardStream(this.relay.settling, call, nowMs);
      return undefined;
    }
    this.over(id, call, endCauseOf(member(event, "response")));
    return running;
  }

  /** The caller of all that runs has left. */
  leave(): void {
    for (const { call } of this.running.values()) call.isOrphan = true;
  }

  /** Ends all that runs, for the same reason. */
  endAll(endCause: EndCause): void {
    for (const [id, { call }] of this.running) this.over(id, call, endCause);
  }

  /** Whether a response runs of which nothing was heard for so long. */
  isSilent(nowMs: number, idleMs: number): boolean {
    for (const { heardAtMs } of this.running.values()) if (nowMs - heardAtMs > idleMs) return true;
    return false;
  }

  private over(id: string, call: LiveCall, endCause: EndCause): void {
    this.running.delete(id);
    this.ended.add(id);
    for (const oldest of this.ended) {
      if (this.ended.size <= maxEnded) break;
      this.ended.delete(oldest);
    }
    endCall(this.relay, call, endCause, this.reported);
  }
}
