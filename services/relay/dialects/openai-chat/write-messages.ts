import { callIdFor } from "../call-id.ts";
import {
  UnsupportedError,
  type CallPart,
  type Opaque,
  type Part,
  type ResultPart,
  type TextPart,
  type Turn,
} from "../conversation.ts";
import { freeTextInput, writeToolName } from "../free-text.ts";
import { writeExtra } from "./extra-content.ts";
import { writeDetails } from "./reasoning-details.ts";
import type { AssistantMessage, ChatCall, ChatMessage, ChatPart } from "./wire.ts";
import { writePart, writeTexts, type SaidPart, type Writing } from "./write-content.ts";

function unsupported(part: Part, role: string): never {
  throw new UnsupportedError(`${part.kind} in ${role} messages cannot be sent to this model`);
}

function writeSystem(parts: Part[], writing: Writing): ChatMessage[] {
  const texts = parts.map((part) => (part.kind === "text" ? part : unsupported(part, "system")));
  const role = writing.quirks.has("no-developer-role") ? "system" : "developer";
  const content = writeTexts(texts, "\n\n", writing);
  return content.length === 0 ? [] : [{ role, content }];
}

/** Chat cannot mark a result as an error: its text has to say so. */
function writeResultText({ parts, isError, cache }: ResultPart, writing: Writing): string | ChatPart[] {
  const texts = parts.filter((part): part is TextPart => part.kind === "text");
  if (texts.length === 0 && parts.length > 0) texts.push({ kind: "text", text: "See the next user message." });
  const [first, ...rest] = texts;
  const isSaid = !isError || /^\W*error/i.test(first?.text ?? "");
  const said: TextPart[] = isSaid ? texts : [{ ...first, kind: "text", text: `Error: ${first?.text ?? ""}` }, ...rest];
  const last = said.at(-1);
  if (cache && !last) writing.losses.add("cache");
  if (cache && last) said[said.length - 1] = { ...last, cache: last.cache ?? cache };
  return writeTexts(said, "\n", writing);
}

/** Media of results: tool messages are text only, so that they wait for the end of the run (trap 23). */
type Attachments = ChatPart[];

function writeResult(result: ResultPart, attachments: Attachments, writing: Writing): ChatMessage {
  const id = callIdFor(result.callId);
  const media = result.parts.filter((part) => part.kind !== "text");
  if (media.length > 0) {
    const parts = media.map((part) => writePart(part, writing));
    attachments.push({ type: "text", text: `From the result of the tool call ${id}:` }, ...parts);
  }
  return { role: "tool", tool_call_id: id, content: writeResultText(result, writing) };
}

function writeUser(parts: Part[], writing: Writing): ChatMessage[] {
  const said = parts.flatMap((part): SaidPart[] => {
    if (part.kind === "result") return [];
    if (part.kind === "refusal" || part.kind === "thinking" || part.kind === "call") return unsupported(part, "user");
    return part.kind === "text" && part.text === "" ? [] : [part];
  });
  const content = said.map((part) => writePart(part, writing));
  const [only] = content;
  if (!only) return [];
  const isPlain = content.length === 1 && only.type === "text" && !only.prompt_cache_breakpoint;
  return [{ role: "user", content: isPlain ? only.text : content }];
}

/** Whether state stands in `reasoning_details` of the message. */
const isDetail = (opaque: Opaque | undefined, { quirks }: Writing): boolean =>
  opaque?.issuer === "openai-chat" && quirks.has("reasoning-details");

/** State goes to its issuer alone, where its chat endpoint takes it. */
function keepsState({ opaque }: CallPart | TextPart, writing: Writing): boolean {
  const { quirks, losses } = writing;
  if (!opaque || isDetail(opaque, writing)) return false;
  const isKept = opaque.issuer === "gemini-generate" && quirks.has("thought-signatures");
  if (!isKept) losses.add("opaqueState");
  return isKept;
}

/** The name of a tool for the provider: marked where one of free text goes as a function. */
export function nameOf(tool: { name: string; isFreeText?: boolean }, quirks: Writing["quirks"]): string {
  const isCustom = tool.isFreeText && !quirks.has("no-custom-tools");
  return isCustom ? tool.name : writeToolName(tool.name, tool.isFreeText);
}

function writeCall(call: CallPart, writing: Writing): ChatCall {
  const id = callIdFor(call.id);
  if (call.cache) writing.losses.add("cache");
  const extra = keepsState(call, writing) && call.opaque ? { extra_content: writeExtra(call.opaque) } : {};
  const name = nameOf(call, writing.quirks);
  if (call.isFreeText && !writing.quirks.has("no-custom-tools")) {
    return { id, type: "custom", custom: { name, input: call.input }, ...extra };
  }
  // Trap 26: no arguments mean an empty object; what is no JSON stays as the model wrote it.
  const input = call.isFreeText ? JSON.stringify(freeTextInput(call.input)) : call.input || "{}";
  return { id, type: "function", function: { name, arguments: input }, ...extra };
}

function writeThinking(parts: Part[], writing: Writing): string {
  const { quirks, losses } = writing;
  let thinking = "";
  for (const part of parts) {
    if (part.kind !== "thinking" || isDetail(part.opaque, writing)) continue;
    if (part.opaque) losses.add("opaqueState");
    if (part.text !== "" && !quirks.has("reasoning-content")) losses.add("thinking");
    thinking += part.text;
  }
  return quirks.has("reasoning-content") ? thinking : "";
}

/** Content of an assistant's message; none beside calls (trap 25). Refusals need the form of parts. */
function writeAssistantContent(parts: Part[], writing: Writing): Pick<AssistantMessage, "content"> {
  const texts = parts.filter((part) => part.kind === "text");
  const refusals = parts.filter((part) => part.kind === "refusal");
  const content = writeTexts(texts, "", writing);
  if (refusals.length === 0) return content.length === 0 ? {} : { content };
  const said: ChatPart[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const refused = refusals.map(({ text }): ChatPart => ({ type: "refusal", refusal: text }));
  return { content: [...(content.length === 0 ? [] : said), ...refused] };
}

function writeAssistant(parts: Part[], writing: Writing): ChatMessage[] {
  for (const part of parts) {
    if (part.kind === "image" || part.kind === "file" || part.kind === "audio" || part.kind === "result") {
      return unsupported(part, "assistant");
    }
  }
  const calls = parts.filter((part) => part.kind === "call").map((call) => writeCall(call, writing));
  const content = writeAssistantContent(parts, writing);
  const thinking = writeThinking(parts, writing);
  const signed = parts.filter((part) => part.kind === "text" && keepsState(part, writing)).at(-1);
  const extra = signed?.kind === "text" && signed.opaque ? { extra_content: writeExtra(signed.opaque) } : {};
  const details = writing.quirks.has("reasoning-details") ? writeDetails(parts) : [];
  if (calls.length === 0 && content.content === undefined) return [];
  return [
    {
      role: "assistant",
      ...content,
      ...(thinking !== "" && { reasoning_content: thinking }),
      ...(details.length > 0 && { reasoning_details: details }),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...extra,
    },
  ];
}

/**
 * Writes turns as messages. Results become tool messages, one after the other, with their media in one user message
 * behind all of them. Throws UnsupportedError for what chat cannot say.
 */
export function writeMessages(turns: Turn[], writing: Writing): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let attachments: Attachments = [];
  const say = (said: ChatMessage[]): void => {
    if (said.length === 0) return;
    if (attachments.length > 0) messages.push({ role: "user", content: attachments });
    attachments = [];
    messages.push(...said);
  };
  for (const { role, parts } of turns) {
    if (role === "system") say(writeSystem(parts, writing));
    else if (role === "assistant") say(writeAssistant(parts, writing));
    else {
      const results = parts.filter((part) => part.kind === "result");
      messages.push(...results.map((result) => writeResult(result, attachments, writing)));
      say(writeUser(parts, writing));
    }
  }
  if (attachments.length > 0) messages.push({ role: "user", content: attachments });
  return messages;
}
