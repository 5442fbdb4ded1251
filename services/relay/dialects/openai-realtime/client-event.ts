import { member, stringOf } from "../dialect.ts";
import { billingOf } from "../provider-tools.ts";
import { RequestError } from "../request-error.ts";
import { isOwnAddress } from "../state-names.ts";
import { estimateTokens } from "../token-weights.ts";
import { soundFormatOf, type SoundFormat } from "./sound.ts";
import { isVoiceId } from "../state-names.ts";

/** What decides which events of a caller pass, and what becomes of the names in them. */
export type EventRules = {
  /** The model of the session, as the caller and as the upstream calls it. */
  model: string;
  upstreamModel: string;
  /** What the upstream calls a model that writes down what it hears; undefined where the caller may not use it. */
  transcriberOf: (model: string) => string | undefined;
  /** Whether ids of prompts and of voices which the provider keeps are everybody's. */
  sharesPrompts: boolean;
  sharesVoices: boolean;
};

/** What an event changes of the session. */
export type SessionChange = {
  heard?: SoundFormat | undefined;
  spoken?: SoundFormat | undefined;
  /** The model that writes down what is said, by the caller's name; null: none from now on. */
  transcriber?: string | null | undefined;
  /** Output tokens of a response at most; null: no limit of the caller's. */
  outputCap?: number | null | undefined;
};

export type ClientEvent = {
  type: string;
  eventId: string | undefined;
  /** As the upstream shall get it. */
  frame: string;
  change: SessionChange;
  /** What it adds to what the next response reads: tokens of text, and pictures. */
  textTokens: number;
  pictures: number;
  /** Characters of base64 of sound within an item, and for the buffer of what is heard. */
  itemSound: number;
  heardSound: number;
  /** Whether that is for one response only, which stays out of the conversation. */
  isBeside: boolean;
};

type Json = Record<string, unknown>;

// Fields of the official clients (openai 7.59), those of the beta among them. Others are refused: what is not known may
// change what a session costs, or whose state it reads.
const setOf = (names: string): ReadonlySet<string> => new Set(names.split(" "));
const eventFields: Record<string, ReadonlySet<string>> = {
  "session.update": setOf("session"),
  "input_audio_buffer.append": setOf("audio"),
  "input_audio_buffer.commit": setOf(""),
  "input_audio_buffer.clear": setOf(""),
  "output_audio_buffer.clear": setOf(""),
  "conversation.item.create": setOf("item previous_item_id"),
  "conversation.item.delete": setOf("item_id"),
  "conversation.item.retrieve": setOf("item_id"),
  "conversation.item.truncate": setOf("item_id content_index audio_end_ms"),
  "response.create": setOf("response"),
  "response.cancel": setOf("response_id"),
};
const sharedFields =
  "audio instructions max_output_tokens output_modalities parallel_tool_calls prompt reasoning tool_choice tools " +
  "modalities voice output_audio_format temperature max_response_output_tokens";
const sessionFields = setOf(
  `${sharedFields} type model include tracing truncation input_audio_format input_audio_noise_reduction ` +
    "input_audio_transcription turn_detection speed",
);
const responseFields = setOf(`${sharedFields} conversation input metadata`);
const audioFields = setOf("input output");
const spokenFields = setOf("output");
const inputFields = setOf("format noise_reduction transcription turn_detection");
const outputFields = setOf("format speed voice");
const contentFields = setOf("id type text audio transcript image_url detail");
const transcriptionFields = setOf("delay keywords language languages model prompt");

const maxTools = 1_000;

function objectAt(value: unknown, path: string, known?: ReadonlySet<string>): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RequestError(`field ${path} must be an object`);
  }
  const unknown = known && Object.keys(value).find((name) => !known.has(name));
  if (unknown !== undefined) throw new RequestError(`field ${path}.${unknown.slice(0, 64)} is not supported`);
  return value as Json;
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

function checkTools(tools: unknown, path: string): void {
  if (!isGiven(tools)) return;
  if (!Array.isArray(tools)) throw new RequestError(`field ${path} must be an array`);
  if (tools.length > maxTools) throw new RequestError(`field ${path} must have at most ${maxTools} tools`);
  for (const tool of tools) {
    const type = stringOf(member(tool, "type")) ?? "";
    // No event tells how often a tool ran that is billed apart.
    if (billingOf(type) !== "nothing") {
      throw new RequestError(`a tool of type "${type.slice(0, 64)}" in field ${path} cannot be used in a session`);
    }
    if (isGiven(member(tool, "tunnel_id"))) throw new RequestError(`field ${path}.tunnel_id cannot be used`);
  }
}

function checkVoice(voice: unknown, path: string, { sharesVoices }: EventRules): void {
  if (!isGiven(voice) || sharesVoices) return;
  if (typeof voice !== "string" || isVoiceId(voice)) {
    throw new RequestError(`field ${path} names nothing that this account got from the provider of this model`);
  }
}

function capOf(value: unknown, path: string): number | null | undefined {
  if (value === undefined) return undefined;
  if (value === null || value === "inf") return null;
  if (typeof value !== "number" || !(value >= 1)) throw new RequestError(`field ${path} must be a number or "inf"`);
  return Math.ceil(value);
}

/** By its name of today, else by that of the beta. */
function readCap(given: Json, path: string): number | null | undefined {
  const cap = capOf(given["max_output_tokens"], `${path}.max_output_tokens`);
  return cap === undefined ? capOf(given["max_response_output_tokens"], `${path}.max_response_output_tokens`) : cap;
}

function formatOf(value: unknown): SoundFormat | undefined {
  const type = stringOf(value) ?? stringOf(member(value, "type"));
  return type === undefined ? undefined : soundFormatOf(type);
}

/** Puts the upstream's name of the model that writes down what is heard, and gives the caller's. */
function readTranscription(place: Json, name: string, path: string, rules: EventRules): string | null | undefined {
  const { [name]: given } = place;
  if (given === undefined || given === null) return given;
  const transcription = objectAt(given, path, transcriptionFields);
  const model = stringOf(transcription["model"]) ?? "";
  const upstreamModel = rules.transcriberOf(model);
  if (upstreamModel === undefined) {
    const what = model === "" ? `field ${path}.model is required` : `The model ${model.slice(0, 200)}`;
    throw new RequestError(model === "" ? what : `${what} does not exist or is not available for ${path}`);
  }
  place[name] = { ...transcription, model: upstreamModel };
  return model;
}

/** What sessions and responses have in common. */
function readShared(given: Json, path: "session" | "response", rules: EventRules): SessionChange {
  checkTools(given["tools"], `${path}.tools`);
  checkVoice(given["voice"], `${path}.voice`, rules);
  if (isGiven(given["prompt"]) && !rules.sharesPrompts) {
    throw new RequestError(`field ${path}.prompt names nothing that this account got from the provider of this model`);
  }
  const change: SessionChange = {
    spoken: formatOf(given["output_audio_format"]),
    outputCap: readCap(given, path),
  };
  if (!isGiven(given["audio"])) return change;
  const audio = { ...objectAt(given["audio"], `${path}.audio`, path === "session" ? audioFields : spokenFields) };
  given["audio"] = audio;
  if (isGiven(audio["output"])) {
    const output = objectAt(audio["output"], `${path}.audio.output`, outputFields);
    checkVoice(output["voice"], `${path}.audio.output.voice`, rules);
    change.spoken = formatOf(output["format"]) ?? change.spoken;
  }
  if (isGiven(audio["input"])) {
    const input = { ...objectAt(audio["input"], `${path}.audio.input`, inputFields) };
    audio["input"] = input;
    change.heard = formatOf(input["format"]);
    change.transcriber = readTranscription(input, "transcription", `${path}.audio.input.transcription`, rules);
  }
  return change;
}

/**
 * Reads the settings of a session as a caller gives them: the same with the upstream's names, and what they change.
 * Throws RequestError for what cannot be used.
 */
export function readSession(given: unknown, rules: EventRules): { session: Json; change: SessionChange } {
  const session = { ...objectAt(given, "session", sessionFields) };
  const { type = "realtime", model = rules.model } = session;
  if (type !== "realtime") throw new RequestError('field session.type must be "realtime"');
  if (model !== rules.model) throw new RequestError(`field session.model must be ${rules.model}`);
  if ("model" in session) session["model"] = rules.upstreamModel;
  const change = readShared(session, "session", rules);
  const old = "input_audio_transcription";
  const transcriber = readTranscription(session, old, `session.${old}`, rules);
  return {
    session,
    change: {
      ...change,
      heard: change.heard ?? formatOf(session["input_audio_format"]),
      transcriber: change.transcriber === undefined ? transcriber : change.transcriber,
    },
  };
}

/** How sound is written in a session, as its provider tells it. */
export function formatsOf(session: unknown): Pick<SessionChange, "heard" | "spoken"> {
  const at = (way: string): unknown => member(member(member(session, "audio"), way), "format");
  return {
    heard: formatOf(at("input")) ?? formatOf(member(session, "input_audio_format")),
    spoken: formatOf(at("output")) ?? formatOf(member(session, "output_audio_format")),
  };
}

const mediaNames = new Set(["audio", "image_url"]);

/** What an item of a conversation has: all but its media is text. */
function weigh(item: unknown, path: string): Pick<ClientEvent, "textTokens" | "pictures" | "itemSound"> {
  const found = { textTokens: 0, pictures: 0, itemSound: 0 };
  const content = member(objectAt(item, path), "content");
  for (const part of Array.isArray(content) ? (content as unknown[]) : []) {
    // Elsewhere parts name files that the provider keeps for the operator.
    const { type, image_url: image } = objectAt(part, `${path}.content`, contentFields);
    if (type === "input_image") found.pictures += 1;
    // A provider would open it with the operator's own rights.
    if (isGiven(image) && (typeof image !== "string" || isOwnAddress(image))) {
      throw new RequestError(`field ${path}.content.image_url must be an address on the web or the picture itself`);
    }
    found.itemSound += stringOf(member(part, "audio"))?.length ?? 0;
  }
  const text = JSON.stringify(item, (name, value: unknown) => (mediaNames.has(name) ? undefined : value));
  found.textTokens = estimateTokens(text);
  return found;
}

function readResponse(given: unknown, rules: EventRules) {
  const response = { ...objectAt(given, "response", responseFields) };
  const change = readShared(response, "response", rules);
  const { input, conversation } = response;
  if (isGiven(conversation) && conversation !== "auto" && conversation !== "none") {
    throw new RequestError('field response.conversation must be "auto" or "none"');
  }
  if (isGiven(input) && !Array.isArray(input)) throw new RequestError("field response.input must be an array");
  const added = { textTokens: 0, pictures: 0, itemSound: 0 };
  for (const item of (input ?? []) as unknown[]) {
    const one = weigh(item, "response.input");
    added.textTokens += one.textTokens;
    added.pictures += one.pictures;
    added.itemSound += one.itemSound;
  }
  const own = JSON.stringify({ instructions: response["instructions"], tools: response["tools"] });
  added.textTokens += estimateTokens(own);
  const { outputCap, spoken } = change;
  return { response, change: { outputCap, spoken }, added: { ...added, isBeside: conversation === "none" } };
}

/**
 * Reads an event of a caller. The upstream gets it as it was read here, so that both have read the same. Throws
 * RequestError for what no session may do.
 */
export function readClientEvent(given: unknown, rules: EventRules): ClientEvent {
  const type = stringOf(member(given, "type")) ?? "";
  const fields = Object.hasOwn(eventFields, type) ? eventFields[type] : undefined;
  if (!fields) throw new RequestError(`events of type "${type.slice(0, 64)}" are not supported`);
  const event = { ...objectAt(given, "event") };
  const unknown = Object.keys(event).find((name) => name !== "type" && name !== "event_id" && !fields.has(name));
  if (unknown !== undefined) throw new RequestError(`field ${unknown.slice(0, 64)} is not supported`);
  const read: ClientEvent = {
    type,
    eventId: stringOf(event["event_id"]),
    frame: "",
    change: {},
    textTokens: 0,
    pictures: 0,
    itemSound: 0,
    heardSound: 0,
    isBeside: false,
  };
  if (type === "session.update") {
    const { session, change } = readSession(event["session"], rules);
    event["session"] = session;
    read.change = change;
    read.textTokens = estimateTokens(JSON.stringify({ text: session["instructions"], tools: session["tools"] }));
  } else if (type === "conversation.item.create") Object.assign(read, weigh(event["item"], "item"));
  else if (type === "response.create" && isGiven(event["response"])) {
    const { response, change, added } = readResponse(event["response"], rules);
    event["response"] = response;
    read.change = change;
    Object.assign(read, added);
  } else if (type === "input_audio_buffer.append") read.heardSound = stringOf(event["audio"])?.length ?? 0;
  read.frame = JSON.stringify(event);
  return read;
}
