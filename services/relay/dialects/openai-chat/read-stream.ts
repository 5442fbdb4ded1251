import type { AnswerSink, ReadingContext, StreamReader } from "../answer.ts";
import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import { createChunkReader } from "../openai-shared/read-chunks.ts";
import { isBrokenOff } from "./finish-reasons.ts";
import { createChoice, type ChoiceState } from "./choice-state.ts";
import { countExecuted, countShown, createExecutedTools, type ExecutedTools } from "./executed-tools.ts";
import { finishChoice, readDelta, takeDelta } from "./read-delta.ts";
import { readSources } from "./sources.ts";

type Reading = {
  id: string;
  model: string;
  createdAtSeconds: number | undefined;
  hasStarted: boolean;
  choices: Map<number, ChoiceState>;
  tools: ExecutedTools;
  sources: Citation[] | undefined;
  sink: AnswerSink;
};

/** Azure opens with a chunk that has neither choices nor a name of its own. */
function readHead(reading: Reading, chunk: unknown, hasChoices: boolean): void {
  const results = member(chunk, "web_search");
  if (results) countShown(results, reading.tools, reading.sink);
  // With each chunk come all of them so far.
  if (reading.sink.isShown) reading.sources = readSources(chunk) ?? reading.sources;
  if (reading.hasStarted) return;
  reading.id ||= stringOf(member(chunk, "id")) ?? "";
  reading.model ||= stringOf(member(chunk, "model")) ?? "";
  const created = member(chunk, "created");
  if (Number.isSafeInteger(created) && Number(created) > 0) reading.createdAtSeconds ??= Number(created);
  if (!hasChoices) return;
  reading.hasStarted = true;
  const { id, model, createdAtSeconds } = reading;
  reading.sink.show({ kind: "start", id, model, ...(createdAtSeconds !== undefined && { createdAtSeconds }) });
}

function readChoice({ choices, tools, id, sink }: Reading, value: unknown, index: number, reason?: string): void {
  let choice = choices.get(index);
  if (!choice) choices.set(index, (choice = createChoice(index, id)));
  const delta = takeDelta(choice, value);
  const executed = member(delta, "executed_tools");
  if (executed) countExecuted(executed, tools, sink);
  const isInOrder = readDelta(choice, delta, member(value, "logprobs"), sink);
  choice.reason = reason ?? choice.reason;
  // In other formats nothing would tell it from a whole answer.
  if (isBrokenOff(reason)) sink.unreadable(`the provider broke off: ${reason}`);
  if (!isInOrder) sink.unreadable("the provider went on with a tool call that had ended");
}

/** The end: whole when every choice has said why it ended, with an end mark or, from some servers, without. */
function finish({ choices, sources, sink }: Reading): void {
  const all = [...choices.values()].toSorted((one, other) => one.index - other.index);
  if (all.length === 0 || all.some(({ reason }) => reason === undefined)) {
    sink.unreadable("the answer ended without a finish_reason");
    return;
  }
  for (const choice of all) finishChoice(choice, sources, sink);
  sink.finish();
}

/** Reads a chat stream. */
export function createStreamReader(sink: AnswerSink, context: ReadingContext): StreamReader {
  const reading: Reading = {
    id: "",
    model: "",
    createdAtSeconds: undefined,
    hasStarted: false,
    choices: new Map(),
    tools: createExecutedTools(),
    sources: undefined,
    sink,
  };
  return createChunkReader(sink, context, {
    begin: (chunk, hasChoices) => readHead(reading, chunk, hasChoices),
    readChoice: (choice, index, reason) => readChoice(reading, choice, index, reason),
    finish: () => finish(reading),
  });
}
