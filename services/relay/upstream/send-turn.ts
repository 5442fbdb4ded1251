import type { Route } from "../catalog/choose.ts";
import { bindState, unsharedIds } from "../conversion/bind-state.ts";
import { createPreparation, isPassed, type Prepared } from "../conversion/prepare.ts";
import { dialects } from "../dialects/index.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { CallFailure } from "../failures.ts";
import { readEnvelope } from "../http/read.ts";
import type { LiveCall } from "../live-call.ts";
import { countInputTokens } from "../charge/meter.ts";
import type { Answer, UpstreamRequest } from "./send.ts";
import type { TurnLink } from "./turn-link.ts";
import { codeOfRefusal, type Made, type TurnAnswer, type TurnSocket } from "./turn-socket.ts";

const dialect = dialects["openai-responses"];

// Larger ones go over HTTP: providers take no larger frames.
const maxFrameBytes = 16 * 1024 * 1024;

const frameStart = '{"type":"response.create",';
// Turns are written so; see `sockets/turn-input.ts`.
const streamEnd = Buffer.from(',"stream":true}');

/** The body of a turn as the event of a socket, on which `stream` is implied. */
function writeFrame(body: Buffer, previousId?: string): Buffer {
  const previous = previousId === undefined ? "" : `"previous_response_id":${JSON.stringify(previousId)},`;
  const isPlain = body.subarray(-streamEnd.length).equals(streamEnd);
  const whole = isPlain ? body : readJsonBody(body).rewrite({ remove: ["stream"] });
  const fields = isPlain ? body.subarray(1, -streamEnd.length) : whole.subarray(1, -1);
  return Buffer.concat([Buffer.from(`${frameStart}${previous}`), fields, Buffer.from("}")]);
}

/** What a turn adds to a response that its socket to the upstream may have. */
export type Continued = { made: Made; body: Buffer };

// The provider's own codes: all of it is to be sent again, there or on another connection.
const forgotten = "previous_response_not_found";
const tooOld = "websocket_connection_limit_reached";

const jsonHeaders = { "content-type": "application/json" };
// The body of the whole turn has claimed more.
const share = () => ({ claim: () => true });

type Sending = {
  route: Route;
  prepared: Prepared;
  request: UpstreamRequest;
  call: Pick<LiveCall, "accountId" | "offered">;
};

/** A turn of a caller's socket on its way to an upstream that may have a socket as well. */
export class TurnSending {
  private readonly link: TurnLink;
  private readonly continued: Continued | undefined;
  private answer: TurnAnswer | undefined;

  constructor(link: TurnLink, continued: Continued | undefined) {
    this.link = link;
    this.continued = continued;
  }

  /** Where the response is, for the turn that continues it. */
  get made(): Made | undefined {
    return this.answer?.made;
  }

  /**
   * Sends the turn over the socket to its upstream; undefined where it is to go over HTTP, because there is no socket,
   * or the provider closed it before it began. Rejects with a SendError.
   */
  async send({ route, prepared, request, call }: Sending): Promise<Answer | undefined> {
    this.answer = undefined;
    const { body, conversion, single } = prepared;
    if (conversion || single || !request.body || body.length > maxFrameBytes) return undefined;
    const taking = this.link.take(route.upstream, { path: request.path, headers: request.headers });
    const socket = taking instanceof Promise ? await taking : taking;
    if (!socket) return undefined;
    if (request.signal.isAborted) {
      socket.free();
      return undefined;
    }
    return (this.answer = await this.run(socket, { route, prepared, request, call }));
  }

  private async run(socket: TurnSocket, sending: Sending): Promise<TurnAnswer | undefined> {
    const { route, prepared, request } = sending;
    const { firstByteTimeoutMs, idleTimeoutMs } = route.upstream;
    const turn = { ...request, firstByteTimeoutMs, idleTimeoutMs };
    const short = this.shortFrame(socket, sending);
    let answer = await socket.run(short ?? writeFrame(prepared.body), turn);
    // What the upstream does not remember any more is said again in full.
    const isForgotten = short !== undefined && codeOfRefusal(answer?.refusal) === forgotten;
    if (isForgotten && socket.reserve()) answer = await socket.run(writeFrame(prepared.body), turn);
    const isTooOld = codeOfRefusal(answer?.refusal) === tooOld;
    if (isTooOld) socket.leave();
    const isServed = answer !== undefined && !isTooOld;
    const way = !isServed ? "http" : short && !isForgotten ? "continued" : "whole";
    this.link.count(way);
    if (isServed && answer?.refusal !== undefined) request.onOver();
    return isServed ? answer : undefined;
  }

  /** Only what is new, where the response before is the socket's own. */
  private shortFrame(socket: TurnSocket, { route, call }: Sending): Buffer | undefined {
    const { continued } = this;
    if (continued?.made.socket !== socket) return undefined;
    try {
      const envelope = readEnvelope(continued.body, dialect, jsonHeaders);
      const { offered: model, accountId } = call;
      const ids = unsharedIds(envelope, model);
      const { editsFor } = bindState(ids, accountId, [route], (one) => isPassed(one, dialect));
      const inputTokens = countInputTokens(envelope, model);
      const preparation = createPreparation({ envelope, dialect, model, inputTokens, editsFor, share });
      return writeFrame(preparation.for(route).body, continued.made.id);
    } catch (thrown) {
      // As a reference to an item that it does not bring along.
      if (thrown instanceof CallFailure) return undefined;
      throw thrown;
    }
  }
}
