import type { Conversation, Loss, Tool, ToolChoice } from "../conversation.ts";
import { member } from "../dialect.ts";
import { writeName } from "./names.ts";
import { reduceSchema } from "./schema.ts";

type Declaration = Record<string, unknown>;

const modes = { auto: "AUTO", none: "NONE", required: "ANY" } as const;

/** A function of one text. Grammars are unknown to Gemini, so the model is told theirs in words. */
function freeTextParameters({ schema }: Tool, losses: Set<Loss>): Declaration {
  const hasGrammar = schema !== undefined && member(schema, "type") !== "text";
  if (hasGrammar) losses.add("toolStrictness");
  const described = hasGrammar ? { description: `Text of this format: ${JSON.stringify(schema)}` } : {};
  return { type: "object", properties: { input: { type: "string", ...described } }, required: ["input"] };
}

/** undefined for a function without parameters: an object without properties is refused. */
function writeParameters(tool: Tool, losses: Set<Loss>): Declaration | undefined {
  if (tool.isFreeText) return freeTextParameters(tool, losses);
  const { schema, isLoose } = reduceSchema(tool.schema);
  if (isLoose && tool.isStrict) losses.add("toolStrictness");
  const { properties = {}, anyOf, additionalProperties = false } = schema;
  const isNothing = Object.keys(properties as object).length === 0 && !anyOf && additionalProperties === false;
  return isNothing ? undefined : { ...schema, ...(!anyOf && { type: "object" }) };
}

function declare(tool: Tool, losses: Set<Loss>): Declaration {
  if (tool.cache) losses.add("cache");
  const { name, description, isFreeText = false } = tool;
  const parametersJsonSchema = writeParameters(tool, losses);
  return {
    name: writeName({ name, isFreeText }),
    ...(description !== undefined && description !== "" && { description }),
    ...(parametersJsonSchema && { parametersJsonSchema }),
  };
}

/** Names are allowed only where calls are bound to the functions' schemas; VALIDATED binds them and asks for none. */
function writeChoice({ kind, names }: ToolChoice, tools: readonly Tool[]): Declaration {
  const isBound = names !== undefined || tools.some(({ isStrict }) => isStrict);
  const mode = kind === "auto" && isBound ? "VALIDATED" : modes[kind];
  if (names === undefined || kind === "none") return { mode };
  const freeText = new Set(tools.filter(({ isFreeText }) => isFreeText).map(({ name }) => name));
  return { mode, allowedFunctionNames: names.map((name) => writeName({ name, isFreeText: freeText.has(name) })) };
}

/** `tools` and `toolConfig`; nothing where there are no tools. */
export function writeTools(conversation: Conversation, losses: Set<Loss>): Record<string, unknown> {
  const { tools, toolChoice = { kind: "auto" }, allowsParallelCalls } = conversation;
  if (tools.length === 0) {
    // Every format refuses a choice without tools; only a forced one says something.
    if (toolChoice.kind === "required") losses.add("toolChoice");
    return {};
  }
  if (allowsParallelCalls === false) losses.add("parallelCalls");
  return {
    tools: [{ functionDeclarations: tools.map((tool) => declare(tool, losses)) }],
    toolConfig: { functionCallingConfig: writeChoice(toolChoice, tools) },
  };
}
