import type { StreamReader } from "../conversion.ts";
import { member, stringOf } from "../dialect.ts";
import { readError } from "../openai-shared/error.ts";
import { readToldUsage } from "../openai-shared/usage.ts";
import type { ReplyEvent, ReplyUsage } from "../reply.ts";
import { createChoice, finishChoice, readDelta, takeDelta, type ChoiceState } from "./read-delta.ts";

// What OpenAI gives at most; a number beyond it is no choice of an answer.
const maxChoices = 128;

type StreamState = {
  id: string;
  model: string;
  createdAtSeconds: number | undefined;
  hasStarted: boolean;
  isOver: boolean;
  choices: Map<number, ChoiceState>;
  usage: ReplyUsage | undefined;
};

function brokenOff(message: string): ReplyEvent {
  return { kind: "error", error: { message, type: undefined, code: undefined } };
}

function readHead(state: StreamState, chunk: unknown): void {
  state.id ||= stringOf(member(chunk, "id")) ?? "";
  state.model ||= stringOf(member(chunk, "model")) ?? "";
  const created = member(chunk, "created");
  if (Number.isSafeInteger(created) && Number(created) > 0) state.createdAtSeconds ??= Number(created);
}

function start({ id, model, createdAtSeconds }: StreamState): ReplyEvent {
  return { kind: "start", id, model, ...(createdAtSeconds !== undefined && { createdAtSeconds }) };
}

/** Reads one choice of a chunk; false when it is in an order that cannot be told. */
function readChoice(state: StreamState, value: unknown, position: number, events: ReplyEvent[]): boolean {
  const given = member(value, "index");
  const index = typeof given === "number" && Number.isSafeInteger(given) ? given : position;
  if (index < 0 || index >= maxChoices) return true;
  let choice = state.choices.get(index);
  if (!choice) state.choices.set(index, (choice = createChoice(index, state.id)));
  const isInOrder = readDelta(choice, member(value, "delta"), member(value, "logprobs"), events);
  // Some servers send "" for "not yet".
  choice.reason = stringOf(member(value, "finish_reason")) || choice.reason;
  return isInOrder;
}

function readChunk(state: StreamState, chunk: unknown): ReplyEvent[] {
  if (member(chunk, "error")) {
    state.isOver = true;
    return [{ kind: "error", error: readError(chunk) ?? { message: "", type: undefined, code: undefined } }];
  }
  if (!state.hasStarted) readHead(state, chunk);
  const usage = member(chunk, "usage");
  if (usage) state.usage = readToldUsage(usage) ?? state.usage;
  const choices = member(chunk, "choices");
  // Azure opens with a chunk that has neither choices nor a name of its own.
  if (!Array.isArray(choices) || choices.length === 0) return [];
  const events: ReplyEvent[] = state.hasStarted ? [] : [start(state)];
  state.hasStarted = true;
  for (let at = 0; at < choices.length; at += 1) {
    if (readChoice(state, choices[at], at, events)) continue;
    state.isOver = true;
    events.push(brokenOff("the provider went on with a tool call that had ended"));
    break;
  }
  return events;
}

/** The end: whole when every choice has said why it ended, with an end mark or, from some servers, without. */
function finish(state: StreamState): ReplyEvent[] {
  state.isOver = true;
  const choices = [...state.choices.values()].toSorted((one, other) => one.index - other.index);
  if (choices.length === 0 || choices.some(({ reason }) => reason === undefined)) {
    return [brokenOff("the answer ended without a finish_reason")];
  }
  return [...choices.flatMap(finishChoice), { kind: "finish", usage: state.usage }];
}

/**
 * Reads a chat stream. Usage may come behind finish_reason (trap 8), so that the end is told at `[DONE]`, or when the
 * stream is over; one without a finish_reason is not whole.
 */
export function createStreamReader(): StreamReader {
  const state: StreamState = {
    id: "",
    model: "",
    createdAtSeconds: undefined,
    hasStarted: false,
    isOver: false,
    choices: new Map(),
    usage: undefined,
  };
  return {
    read: (data) => {
      if (state.isOver) return [];
      if (typeof data !== "string") return readChunk(state, data);
      return data.startsWith("[DONE]") ? finish(state) : [];
    },
    end: () => (state.isOver ? [] : finish(state)),
    takeDelta: (index, text) => {
      const choice = state.choices.get(index);
      return choice !== undefined && takeDelta(choice, text);
    },
  };
}
