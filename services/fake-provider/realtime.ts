import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { WebSocketServer, type WebSocket } from "ws";
import { type Claim, randomId } from "./answer.ts";
import { type Behaviour, readBehaviour } from "./behaviour.ts";
import { type Fields, isObject } from "./dialect.ts";
import { refuseHandshake } from "./handshake.ts";
import { countWords } from "./prompt.ts";
import {
  claimOf,
  doneEvent,
  findEventRefusal,
  type Heard,
  type PlannedResponse,
  startEvents,
  tokensOfSound,
  weighItem,
  writeEvent,
} from "./realtime-events.ts";

/** What a fake of sessions shares with the fake of everything else. */
export type RealtimeFake = {
  /** Events that callers sent, oldest first. */
  realtime: Fields[];
  /** The heads of the handshakes, oldest first. */
  handshakes: { url: string; headers: IncomingMessage["headers"] }[];
  nextBehaviour: () => Behaviour;
};

const server = new WebSocketServer({ noServer: true, perMessageDeflate: false });

/** Takes a handshake as OpenAI does: at one path, with a key and a model. */
export function serveRealtime(fake: RealtimeFake, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const url = new URL(request.url ?? "", "http://fake");
  const model = url.searchParams.get("model") ?? "";
  fake.handshakes.push({ url: request.url ?? "", headers: request.headers });
  const behaviour = fake.nextBehaviour();
  if (url.pathname !== "/v1/realtime") return refuseHandshake(socket, 404, "Invalid URL");
  if (!request.headers.authorization) return refuseHandshake(socket, 401, "Missing bearer authentication");
  if (model === "") return refuseHandshake(socket, 400, "You must provide a model parameter.");
  if (behaviour.status !== undefined) return refuseHandshake(socket, behaviour.status, "No session now.", behaviour);
  server.handleUpgrade(request, socket, head, (webSocket) => new Session(fake, webSocket, model, behaviour));
}

type Running = { planned: PlannedResponse; claim: Claim | undefined };

/** A session: what is said to it adds up, and each response reads all of it. */
class Session {
  private readonly fake: RealtimeFake;
  private readonly webSocket: WebSocket;
  private readonly model: string;
  private readonly standing: Behaviour;
  private readonly conversationId = randomId("conv_", 20);
  private readonly heard: Heard = { text: 0, sound: 0, pictures: 0 };
  private readonly running = new Map<string, Running>();
  private session: Fields = { type: "realtime", output_modalities: ["audio"] };
  private buffered = "";
  private said = "";

  constructor(fake: RealtimeFake, webSocket: WebSocket, model: string, standing: Behaviour) {
    this.fake = fake;
    this.webSocket = webSocket;
    this.model = model;
    this.standing = standing;
    webSocket.on("message", (data) => this.receive((data as Buffer).toString()));
    webSocket.on("error", () => undefined);
    this.send({ type: "session.created", session: this.shownSession() });
  }

  private shownSession(): Fields {
    const secret = { value: "ek_of_the_provider", expires_at: 0 };
    return { ...this.session, object: "realtime.session", model: this.model, client_secret: secret };
  }

  private send(event: Fields): void {
    this.webSocket.send(writeEvent(event));
  }

  private receive(text: string): void {
    const event: unknown = JSON.parse(text);
    const refusal = findEventRefusal(event, this.model);
    if (refusal !== undefined || !isObject(event)) {
      return this.send({ type: "error", error: { type: "invalid_request_error", message: refusal, code: null } });
    }
    this.fake.realtime.push(event);
    this.take(event);
  }

  private take(event: Fields): void {
    switch (event["type"]) {
      case "session.update":
        this.session = { ...this.session, ...(event["session"] as Fields) };
        return this.send({ type: "session.updated", session: this.shownSession() });
      case "conversation.item.create":
        return this.addItem(event["item"]);
      case "input_audio_buffer.append":
        this.buffered += String(event["audio"]);
        // The end of what is said is heard at once where the provider listens for it.
        return this.listens() ? this.commit(true) : undefined;
      case "input_audio_buffer.commit":
        return this.commit(false);
      case "response.create":
        return this.create(isObject(event["response"]) ? event["response"] : {}, event["event_id"]);
      case "response.cancel":
        return this.cancel(String(event["response_id"]));
      default:
        return undefined;
    }
  }

  private input(): Fields {
    const { audio } = this.session;
    const input = isObject(audio) ? audio["input"] : undefined;
    return isObject(input) ? input : {};
  }

  private listens(): boolean {
    return isObject(this.input()["turn_detection"]);
  }

  private addItem(item: unknown): void {
    const { said, ...added } = weighItem(item);
    this.heard.text += added.text;
    this.heard.sound += added.sound;
    this.heard.pictures += added.pictures;
    this.said = said || this.said;
    this.send({ type: "conversation.item.added", item: { id: randomId("item_", 20), ...(item as Fields) } });
  }

  private commit(isAnswered: boolean): void {
    const tokens = tokensOfSound(this.buffered);
    const itemId = randomId("item_", 20);
    this.buffered = "";
    this.heard.sound += tokens;
    this.send({ type: "input_audio_buffer.committed", item_id: itemId, previous_item_id: null });
    const { transcription } = this.input();
    if (isObject(transcription)) {
      const isTimed = String(transcription["model"]).startsWith("whisper");
      const audio = { type: "tokens", input_tokens: tokens, output_tokens: 3, total_tokens: tokens + 3 };
      const usage = isTimed
        ? { type: "duration", seconds: tokens / 10 }
        : { ...audio, input_token_details: { audio_tokens: tokens, text_tokens: 0 } };
      const type = "conversation.item.input_audio_transcription.completed";
      this.send({ type, item_id: itemId, content_index: 0, transcript: "what was heard", usage });
    }
    if (isAnswered) this.respond({});
  }

  /** A conversation has one response at a time. */
  private create(given: Fields, eventId: unknown): void {
    const isBusy = [...this.running.values()].some(({ planned }) => planned.conversationId !== null);
    if (!isBusy || given["conversation"] === "none") return this.respond(given);
    const code = "conversation_already_has_active_response";
    const message = "Conversation already has an active response in progress.";
    this.send({ type: "error", error: { type: "invalid_request_error", code, message, event_id: eventId ?? null } });
  }

  private respond(given: Fields): void {
    const behaviour: Behaviour = { ...this.standing, ...readBehaviour(this.said) };
    const { headersAfterMs = 0 } = behaviour;
    if (headersAfterMs === 0) return this.say(given, behaviour);
    setTimeout(() => this.say(given, behaviour), headersAfterMs);
  }

  private say(given: Fields, behaviour: Behaviour): void {
    const modalities = given["output_modalities"] ?? this.session["output_modalities"];
    const isSpoken = Array.isArray(modalities) && modalities.includes("audio");
    const text = behaviour.text ?? "Hello from the fake upstream";
    const conversationId = given["conversation"] === "none" ? null : this.conversationId;
    const ids = { id: randomId("resp_", 20), itemId: randomId("item_", 20) };
    const planned = { ...ids, text, isSpoken, conversationId };
    const claim = claimOf(behaviour, this.heard, countWords(text), isSpoken);
    this.running.set(planned.id, { planned, claim });
    const { gapMs = 0 } = behaviour;
    if (gapMs > 0) return void this.sayBySteps(planned, gapMs);
    for (const event of startEvents(planned)) this.send(event);
    const { kind } = behaviour.fault ?? {};
    if (kind === "stall") return;
    if (kind === "cut" || kind === "reset") return this.webSocket.terminate();
    if (kind === "error-event") {
      const error = { type: "server_error", message: "https://inside.example/ sk-inside-secret failed", code: "oops" };
      this.send({ type: "error", error });
    }
    this.end(planned.id, kind === "failed-event" ? "failed" : "completed");
  }

  /** As a model speaks: word after word, until it is stopped or left. */
  private async sayBySteps(planned: PlannedResponse, gapMs: number): Promise<void> {
    for (const event of startEvents(planned)) {
      if (!this.running.has(planned.id) || this.webSocket.readyState !== this.webSocket.OPEN) return;
      this.send(event);
      await pause(gapMs);
    }
    this.end(planned.id, "completed");
  }

  private cancel(id: string): void {
    if (this.running.has(id)) return this.end(id, "cancelled");
    this.send({ type: "error", error: { type: "invalid_request_error", code: "response_cancel_not_active" } });
  }

  private end(id: string, status: "completed" | "cancelled" | "failed"): void {
    const running = this.running.get(id);
    if (!running) return;
    const { planned, claim } = running;
    this.running.delete(id);
    this.send(doneEvent(planned, status, claim));
    if (planned.conversationId !== null) this.heard.text += countWords(planned.text);
  }
}
