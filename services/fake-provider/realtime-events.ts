import { allInput, allOutput, claimUnder, randomId, type Claim } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import { type Fields, isObject } from "./dialect.ts";
import { countWords } from "./prompt.ts";

/** Tokens of a spoken word, and base64 of the sound of one. */
const tokensOfSpokenWord = 2;
const soundOfWord = Buffer.alloc(4_800).toString("base64");

/** What a conversation has come to, in tokens by the fake's rule. */
export type Heard = { text: number; sound: number; pictures: number };

const fieldsOfEvents: Record<string, string[]> = {
  "session.update": ["session"],
  "input_audio_buffer.append": ["audio"],
  "input_audio_buffer.commit": [],
  "input_audio_buffer.clear": [],
  "output_audio_buffer.clear": [],
  "conversation.item.create": ["item", "previous_item_id"],
  "conversation.item.delete": ["item_id"],
  "conversation.item.retrieve": ["item_id"],
  "conversation.item.truncate": ["item_id", "content_index", "audio_end_ms"],
  "response.create": ["response"],
  "response.cancel": ["response_id"],
};

/** Why a provider would refuse an event; undefined: it takes it. */
export function findEventRefusal(event: unknown, model: string): string | undefined {
  if (!isObject(event)) return "An event must be an object.";
  const fields = fieldsOfEvents[String(event["type"])];
  if (!fields) return `Invalid value: '${String(event["type"])}'.`;
  const unknown = Object.keys(event).find((name) => !["type", "event_id", ...fields].includes(name));
  if (unknown !== undefined) return `Unknown parameter: '${unknown}'.`;
  if (event["type"] !== "session.update") return undefined;
  const { session } = event;
  if (!isObject(session)) return "Missing required parameter: 'session'.";
  if (session["type"] !== "realtime") return "Missing required parameter: 'session.type'.";
  const given = session["model"] ?? model;
  return given === model ? undefined : "Cannot update a conversation's model.";
}

/** What an item adds to a conversation. */
export function weighItem(item: unknown): Heard & { said: string } {
  const found = { text: 0, sound: 0, pictures: 0, said: "" };
  const content = isObject(item) && Array.isArray(item["content"]) ? item["content"] : [];
  for (const part of content.filter(isObject)) {
    if (typeof part["text"] === "string") {
      found.text += countWords(part["text"]);
      found.said = part["text"];
    }
    if (typeof part["audio"] === "string") found.sound += tokensOfSound(part["audio"]);
    if (part["type"] === "input_image") found.pictures += 100;
  }
  return found;
}

/** Ten tokens for each second of 24,000 samples of 16 bits. */
export const tokensOfSound = (base64: string): number =>
  Math.ceil((Buffer.from(base64, "base64").length / 48_000) * 10);

function usageOf(claim: Claim | undefined): Fields | undefined {
  if (!claim) return undefined;
  const { inputTokens, cacheReadTokens, audioInputTokens = 0, imageInputTokens = 0, audioOutputTokens = 0 } = claim;
  return {
    total_tokens: allInput(claim) + allOutput(claim),
    input_tokens: allInput(claim),
    output_tokens: allOutput(claim),
    input_token_details: {
      text_tokens: inputTokens + cacheReadTokens,
      audio_tokens: audioInputTokens,
      image_tokens: imageInputTokens,
      cached_tokens: cacheReadTokens,
      cached_tokens_details: { text_tokens: cacheReadTokens, audio_tokens: 0, image_tokens: 0 },
    },
    output_token_details: { text_tokens: claim.outputTokens, audio_tokens: audioOutputTokens },
  };
}

/** What is claimed of a response that said so many words, as text or aloud. */
export function claimOf(behaviour: Behaviour, heard: Heard, words: number, isSpoken: boolean): Claim | undefined {
  return claimUnder(behaviour, {
    inputTokens: heard.text,
    audioInputTokens: heard.sound,
    imageInputTokens: heard.pictures,
    outputTokens: words,
    audioOutputTokens: isSpoken ? words * tokensOfSpokenWord : 0,
  });
}

export type PlannedResponse = {
  id: string;
  itemId: string;
  text: string;
  isSpoken: boolean;
  conversationId: string | null;
};

type Status = "completed" | "cancelled" | "failed";

/** The events of a response up to its end. */
export function startEvents({ id, itemId, text, isSpoken, conversationId }: PlannedResponse): Fields[] {
  const base = { response_id: id, item_id: itemId, output_index: 0, content_index: 0 };
  const response = { id, object: "realtime.response", status: "in_progress", conversation_id: conversationId };
  const deltas = text.split(/(?<=\s)/).flatMap((delta) => {
    if (!isSpoken) return [{ type: "response.output_text.delta", ...base, delta }];
    return [
      { type: "response.output_audio_transcript.delta", ...base, delta },
      { type: "response.output_audio.delta", ...base, delta: soundOfWord },
    ];
  });
  return [{ type: "response.created", response: { ...response, output: [], usage: null } }, ...deltas];
}

/** The event that ends a response. */
export function doneEvent(planned: PlannedResponse, status: Status, claim: Claim | undefined): Fields {
  const { id, itemId, text, isSpoken, conversationId } = planned;
  const part = isSpoken ? { type: "output_audio", transcript: text } : { type: "output_text", text };
  const item = { id: itemId, type: "message", role: "assistant", status: "completed", content: [part] };
  const usage = usageOf(claim);
  return {
    type: "response.done",
    response: {
      id,
      object: "realtime.response",
      conversation_id: conversationId,
      status,
      output: [item],
      ...(usage && { usage }),
    },
  };
}

/** An event with an id, as it goes out. */
export const writeEvent = (event: Fields): string => JSON.stringify({ event_id: randomId("event_", 20), ...event });
