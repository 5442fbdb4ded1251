import { callIdFor } from "../call-id.ts";
import {
  notePlaces,
  UnsupportedError,
  type AudioPart,
  type CallPart,
  type Conversation,
  type FilePart,
  type ImagePart,
  type Loss,
  type Opaque,
  type Part,
  type ResultPart,
  type Turn,
} from "../conversation.ts";
import { writeSource } from "./media.ts";
import type { Traits } from "./models.ts";
import { writeName } from "./names.ts";

type GeminiPart = Record<string, unknown>;
type Content = { role: "user" | "model"; parts: GeminiPart[] };

type Writing = {
  contents: Content[];
  systemTexts: string[];
  /** Names of functions by the calls' ids, because results must name theirs. */
  functionNames: Map<string, string>;
  traits: Traits;
  losses: Set<Loss>;
};

// Google's documented word for a call that has no signature: history of another model, or of a client that drops it.
const signatureFiller = "skip_thought_signature_validator";

// An answer needs a turn of the user before it, and parts must not be empty.
const placeholder = ".";

function writeMedia(part: ImagePart | FilePart | AudioPart, losses: Set<Loss>): GeminiPart {
  if (part.kind === "audio") return { inlineData: { mimeType: part.mediaType, data: part.data } };
  if (part.kind === "image" && part.detail !== undefined && part.detail !== "auto") losses.add("imageDetail");
  if (part.kind === "file" && part.name !== undefined) losses.add("fileName");
  return writeSource(part.source);
}

function writeResult({ callId, parts, isError }: ResultPart, writing: Writing): GeminiPart[] {
  const { functionNames, traits, losses } = writing;
  const name = functionNames.get(callId);
  if (name === undefined) throw new UnsupportedError(`no call with the ID ${callId} stands before its result`);
  const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
  const media = parts.flatMap((part) => (part.kind === "text" ? [] : [writeMedia(part, losses)]));
  // Always as text: in a structured response a key such as $ref would be read as a reference.
  const response = isError ? { error: text } : { result: text };
  const isWithin = traits.readsMediaInResults && media.length > 0;
  const functionResponse = { id: callIdFor(callId), name, response, ...(isWithin && { parts: media }) };
  return [{ functionResponse }, ...(isWithin ? [] : media)];
}

/**
 * Input that is no JSON object, such as a cut one, is not repaired (trap 26) but stays whole under a name that tells,
 * so that the conversation can go on and the model sees what it wrote.
 */
function parseInput({ input, isFreeText }: CallPart): unknown {
  if (isFreeText) return { input };
  if (input.trim() === "") return {};
  try {
    const parsed: unknown = JSON.parse(input);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return parsed;
  } catch {
    // Told by the name.
  }
  return { INVALID_JSON: input };
}

function writeCall(call: CallPart, { functionNames }: Writing): GeminiPart {
  const name = writeName({ name: call.name, isFreeText: call.isFreeText ?? false });
  functionNames.set(call.id, name);
  return { functionCall: { id: callIdFor(call.id), name, args: parseInput(call) } };
}

const isOwn = (opaque: Opaque | undefined): opaque is Opaque => opaque?.issuer === "gemini-generate";

function writePart(part: Part, writing: Writing): GeminiPart[] {
  if (part.kind === "text" || part.kind === "refusal") return [{ text: part.text }];
  if (part.kind === "thinking") return [{ text: part.text, thought: true }];
  if (part.kind === "call") return [writeCall(part, writing)];
  return part.kind === "result" ? writeResult(part, writing) : [writeMedia(part, writing.losses)];
}

/** Whether a part goes into the request; notes what gets lost with it or of it. */
function isSupported(part: Part, losses: Set<Loss>): boolean {
  if ("cache" in part && part.cache) losses.add("cache");
  if (part.kind === "result" && part.parts.some(({ cache }) => cache)) losses.add("cache");
  if (part.kind === "text" && part.citations?.length) losses.add("citations");
  if (!("opaque" in part) || !part.opaque || isOwn(part.opaque)) return true;
  losses.add("opaqueState");
  if (part.kind !== "thinking") return true;
  if (part.text !== "") losses.add("thinking");
  return false;
}

const isEmpty = (part: GeminiPart): boolean => part["text"] === "" && part["thoughtSignature"] === undefined;

/** Signatures go back on the very part that they came with. */
function sign(part: Part, written: GeminiPart[]): GeminiPart[] {
  if (!("opaque" in part) || !isOwn(part.opaque)) return written;
  const thoughtSignature = part.opaque.value;
  return written.map((one) => ({ ...one, thoughtSignature }));
}

function writeParts(parts: readonly Part[], writing: Writing): GeminiPart[] {
  const supported = parts.filter((part) => isSupported(part, writing.losses));
  return supported.flatMap((part) => sign(part, writePart(part, writing))).filter((part) => !isEmpty(part));
}

/** Neighbours of one role become one: the answers to parallel calls must stand in one turn. */
function append(role: Content["role"], parts: GeminiPart[], { contents }: Writing): void {
  if (parts.length === 0) return;
  const last = contents.at(-1);
  if (last?.role === role) last.parts.push(...parts);
  else contents.push({ role, parts });
}

function writeTurn({ role, parts }: Turn, writing: Writing): void {
  if (role !== "system") return append(role === "user" ? "user" : "model", writeParts(parts, writing), writing);
  const written = writeParts(parts, writing);
  // Later ones too: nothing else than the system instruction has their weight. It takes text only.
  for (const { text } of written) if (typeof text === "string") writing.systemTexts.push(text);
  append(
    "user",
    written.filter(({ text }) => typeof text !== "string"),
    writing,
  );
}

/** The first of parallel calls must have a signature; the others have none. */
function signFirstCall({ role, parts }: Content): void {
  if (role !== "model") return;
  const first = parts.find((part) => part["functionCall"] !== undefined);
  if (first) first["thoughtSignature"] ??= signatureFiller;
}

const isResponse = (part: GeminiPart): boolean => part["functionResponse"] !== undefined;

/** Answers of functions must come first, right behind their calls. */
function putResponsesFirst({ role, parts }: Content): Content {
  return { role, parts: [...parts.filter(isResponse), ...parts.filter((part) => !isResponse(part))] };
}

type WrittenTurns = { contents: Content[]; systemInstruction: { parts: GeminiPart[] } | undefined };

/** The turns of a conversation as `contents` and `systemInstruction`. Throws UnsupportedError. */
export function writeTurns({ turns }: Conversation, traits: Traits, losses: Set<Loss>): WrittenTurns {
  notePlaces(turns, losses);
  const writing: Writing = { contents: [], systemTexts: [], functionNames: new Map(), traits, losses };
  for (const turn of turns) writeTurn(turn, writing);
  const { contents, systemTexts } = writing;
  if (contents[0]?.role !== "user") contents.unshift({ role: "user", parts: [{ text: placeholder }] });
  // In every turn, not only in the running one, so that the beginning of a conversation stays the same for caches.
  if (traits.checksSignatures) contents.forEach(signFirstCall);
  return {
    contents: contents.map(putResponsesFirst),
    systemInstruction: systemTexts.length > 0 ? { parts: systemTexts.map((text) => ({ text })) } : undefined,
  };
}
