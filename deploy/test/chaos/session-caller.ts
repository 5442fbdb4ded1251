import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { wordsOf } from "../e2e/caller.ts";
import type { Random } from "../e2e/random.ts";
import type { Customer } from "../e2e/world.ts";

/** A response that a caller asked for in a session, and what he knows of it. */
export type SpokenResponse = {
  /** What its provider counts. */
  claim: { inputTokens: number; outputTokens: number };
  /** Undefined: the caller was never told that it began. */
  rid: string | undefined;
  isWhole: boolean;
  /** Whether neither an answer nor an end of the session came. */
  isSilent: boolean;
};

type Event = { type: string; headers?: Record<string, string>; response?: { status?: string } };

type Talking = {
  url: string;
  customer: Customer;
  random: Random;
  isOver: () => boolean;
  /** Told of each response that has ended, in whichever way. */
  onEnded: (response: SpokenResponse) => void;
};

// Above the time after which a session is told that its provider says nothing.
const silentMs = 60_000;
const perSession = 6;
const againMs = 100;

/** Asks for one response, which reads `tokensHeard` tokens and more, and waits for its end or that of the session. */
async function ask(webSocket: WebSocket, tokensHeard: number, { random, onEnded }: Talking): Promise<number> {
  // More than the relay estimates from what is said, so that the claim is above whatever a cut response may cost.
  const inputTokens = tokensHeard + random.between(300, 800);
  const claim = { inputTokens, outputTokens: random.between(30, 200) };
  const response: SpokenResponse = { claim, rid: undefined, isWhole: false, isSilent: false };
  const words = random.between(3, 25);
  const hangUpAt = random.chance(20) ? random.between(1, words) : Infinity;
  const { promise, resolve } = Promise.withResolvers<void>();
  let heard = 0;
  const listen = (data: unknown): void => {
    const { type, headers, response: told } = JSON.parse(String(data)) as Event;
    if (type === "response.created") response.rid = headers?.["x-request-id"];
    if (type === "response.output_text.delta") heard += 1;
    if (heard >= hangUpAt) webSocket.terminate();
    if (type === "response.done") response.isWhole = told?.status === "completed";
    if (type === "response.done" || type === "error") resolve();
  };
  const timer = setTimeout(() => {
    response.isSilent = true;
    webSocket.terminate();
  }, silentMs);
  webSocket.on("message", listen).once("close", resolve);
  const behaviour = { text: wordsOf(words), gapMs: random.between(1, 25), usage: claim };
  const content = [{ type: "input_text", text: behaviourText(behaviour, "Please answer.") }];
  const item = { type: "message", role: "user", content };
  webSocket.send(JSON.stringify({ type: "conversation.item.create", item }));
  webSocket.send(JSON.stringify({ type: "response.create", response: { output_modalities: ["text"] } }));
  await promise;
  clearTimeout(timer);
  webSocket.off("message", listen).off("close", resolve);
  onEnded(response);
  return claim.inputTokens + claim.outputTokens;
}

/** Opens sessions one after the other, and asks in each for some responses, until it is over. */
export async function talk(talking: Talking): Promise<void> {
  const { url, customer, isOver } = talking;
  const headers = { authorization: `Bearer ${customer.secret}` };
  while (!isOver()) {
    const webSocket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/realtime?model=talking-model`, {
      headers,
      handshakeTimeout: silentMs,
    });
    webSocket.on("error", () => undefined);
    const closed = new Promise<void>((resolve) => webSocket.once("close", () => resolve()));
    const opened = new Promise<void>((resolve) => webSocket.once("open", resolve));
    await Promise.race([opened, closed]);
    let tokensHeard = 0;
    for (let asked = 0; asked < perSession && !isOver() && webSocket.readyState === WebSocket.OPEN; asked += 1) {
      tokensHeard = await ask(webSocket, tokensHeard, talking);
    }
    webSocket.close();
    await closed;
    await pause(againMs);
  }
}
