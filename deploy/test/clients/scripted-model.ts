import type { Behaviour } from "#fake-provider/behaviour.ts";
import type { FakeRequest } from "#fake-provider/request.ts";
import { findViolation } from "./provider-rules.ts";
import type { Json } from "../e2e/ask.ts";

type ToolCall = NonNullable<Behaviour["tools"]>[number];

/** Inputs of the tools that clients declare, by what the tool is called; agents read the two files of their folder. */
const inputs: Record<string, (step: number) => Json> = {
  get_weather: () => ({ where: "Paris" }),
  get_time: () => ({ where: "Paris" }),
  exec_command: (step) => ({ cmd: readFile(step) }),
  shell_command: (step) => ({ command: readFile(step) }),
  shell: (step) => ({ command: ["cat", fileOf(step)] }),
  Bash: (step) => ({ command: readFile(step), description: "Reads" }),
  bash: (step) => ({ command: readFile(step), description: "Reads" }),
  run_shell_command: (step) => ({ command: readFile(step), description: "Reads", is_background: false }),
};

const fileOf = (step: number): string => (step === 0 ? "first.txt" : "second.txt");
const readFile = (step: number): string => `cat ${fileOf(step)}`;

const person = { name: "Ada", age: 36 };
const word = /word-[a-z0-9]+/g;

type Fields = Record<string, unknown>;

const listOf = (value: unknown): Fields[] =>
  Array.isArray(value)
    ? value.filter((item): item is Fields => typeof item === "object" && item !== null && !Array.isArray(item))
    : [];

/** Names of the tools that a request declares, in any format. */
function toolNames({ fields }: FakeRequest): string[] {
  return listOf(fields["tools"]).flatMap((tool) => {
    const declared = listOf(tool["functionDeclarations"]);
    if (declared.length > 0) return declared.map(({ name }) => String(name));
    const { name } = (tool["function"] ?? tool["custom"] ?? tool) as Fields;
    return typeof name === "string" ? [name] : [];
  });
}

/** What tools gave back in a request, in any format. */
function resultsOf({ fields }: FakeRequest): unknown[] {
  const turns = [...listOf(fields["messages"]), ...listOf(fields["input"]), ...listOf(fields["contents"])];
  return turns.flatMap((turn) => {
    const isWhole = turn["role"] === "tool" || String(turn["type"]).endsWith("_call_output");
    if (isWhole) return [turn];
    const parts = [...listOf(turn["content"]), ...listOf(turn["parts"])];
    return parts.filter((part) => part["type"] === "tool_result" || part["functionResponse"] !== undefined);
  });
}

const wordsWanted = 2;
const mostCalls = 6;

/** Agents' shells were seen to lose what a command had printed: then it is asked for again, as by any model. */
function loopOfTools(request: FakeRequest, names: readonly string[]): Behaviour {
  const results = resultsOf(request);
  const words = new Set(JSON.stringify(results).match(word));
  const known = names.filter((name) => Object.hasOwn(inputs, name));
  const name = known[words.size] ?? known[0];
  const input = name === undefined ? undefined : inputs[name];
  if (name !== undefined && input && words.size < wordsWanted && results.length < mostCalls) {
    const call: ToolCall = { name, arguments: input(words.size) };
    return { text: "One moment.", thinking: "I need a tool.", tools: [call] };
  }
  return { text: `The words are ${[...words].join(" ")}` };
}

function structured(names: readonly string[]): Behaviour {
  const [name] = names;
  return name === undefined ? { text: JSON.stringify(person) } : { tools: [{ name, arguments: person }] };
}

const greeting = "Hello from the model.";

/** What the code of the quick start prints, one or the other. */
export const recipeAnswers = [greeting, `${person.name} ${person.age}`];

/**
 * What the fake providers answer: two calls of tools one after the other, then the words that the tools gave back; a
 * person, as JSON or as the input of the tool that asks for one; a refusal of what a real provider would refuse.
 */
export function answerOf(request: FakeRequest): Behaviour {
  const message = findViolation(request);
  if (message !== undefined) return { status: 400, error: { message: `a strict provider: ${message}` } };
  const said = JSON.stringify(request.fields);
  const names = toolNames(request);
  if (said.includes("[structured]") || said.includes("Ada is 36")) return structured(names);
  if (said.includes("Say hello.")) return { text: greeting };
  if (said.includes("[two tools]") && names.length > 0) return loopOfTools(request, names);
  return {};
}
