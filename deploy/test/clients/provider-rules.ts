import type { FakeRequest } from "#fake-provider/request.ts";

type Fields = Record<string, unknown>;

const listOf = (value: unknown): Fields[] => (Array.isArray(value) ? (value as Fields[]) : []);

const toolName = /^[a-zA-Z0-9_-]{1,64}$/;

const nameOf = (tool: Fields): unknown => ((tool["function"] ?? tool["custom"] ?? tool) as Fields)["name"];

function findToolNames(tools: unknown, pattern: RegExp): string | undefined {
  const named = listOf(tools).filter((tool) => nameOf(tool) !== undefined);
  const names = named.map(nameOf);
  const wrong = names.find((name) => typeof name !== "string" || !pattern.test(name));
  if (wrong !== undefined) return `tool name ${JSON.stringify(wrong)}`;
  return new Set(names).size < names.length ? "two tools have one name" : undefined;
}

/** Calls are answered at once, each by one result, and no result stands alone. */
function findOpenCalls(steps: { calls: string[]; results: string[] }[]): string | undefined {
  let open = new Set<string>();
  for (const { calls, results } of steps) {
    for (const id of results) if (!open.delete(id)) return `a result of ${id}, which is no open call`;
    if (results.length === 0 && open.size > 0) return `no result of ${[...open].join(", ")}`;
    if (calls.length > 0) open = new Set([...open, ...calls]);
    if (calls.some((id) => id === "")) return "a call without an id";
  }
  return open.size > 0 ? `no result of ${[...open].join(", ")}` : undefined;
}

function findInChat(fields: Fields): string | undefined {
  const messages = listOf(fields["messages"]);
  const wrong = messages.find((message) => {
    const { role, content, tool_calls: calls } = message;
    if (role === "assistant") return content === undefined && calls === undefined;
    return content === undefined || content === null || "reasoning_content" in message;
  });
  if (wrong) return `message ${JSON.stringify(wrong).slice(0, 100)}`;
  const steps = messages.map(({ role, tool_calls: calls, tool_call_id: id }) => ({
    calls: listOf(calls).map((call) => String(call["id"])),
    results: role === "tool" ? [String(id)] : [],
  }));
  return findToolNames(fields["tools"], toolName) ?? findOpenCalls(steps);
}

function findInMessages(fields: Fields): string | undefined {
  const messages = listOf(fields["messages"]);
  const blocks = messages.map(({ content }) => listOf(content));
  const empty = [...listOf(fields["system"]), ...blocks.flat()].find(
    ({ type, text }) => type === "text" && String(text).trim() === "",
  );
  if (empty) return "text content blocks must be non-empty";
  if (messages[0]?.["role"] !== "user") return "first message must use the user role";
  const schema = listOf(fields["tools"]).find(({ type = "custom", input_schema: given }) => {
    return type === "custom" && (given as Fields | undefined)?.["type"] !== "object";
  });
  if (schema) return "input_schema.type: Field required";
  const steps = blocks.map((content) => ({
    calls: content.flatMap(({ type, id }) => (type === "tool_use" ? [String(id)] : [])),
    results: content.flatMap(({ type, tool_use_id: id }) => (type === "tool_result" ? [String(id)] : [])),
  }));
  return findToolNames(fields["tools"], /^[a-zA-Z0-9_-]{1,128}$/) ?? findOpenCalls(steps);
}

const itemTypes = new Set([
  undefined,
  "message",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "reasoning",
  // The provider has stored what it names.
  "item_reference",
]);

function findInResponses(fields: Fields): string | undefined {
  const items = listOf(fields["input"]);
  const unknown = items.find(({ type }) => !itemTypes.has(type as string | undefined));
  if (unknown) return `Invalid value: '${String(unknown["type"])}'`;
  const calls = new Set(items.filter(({ type }) => String(type).endsWith("_call")).map((item) => item["call_id"]));
  const results = items.filter(({ type }) => String(type).endsWith("_call_output")).map((item) => item["call_id"]);
  const alone = results.find((id) => !calls.has(id));
  if (alone !== undefined) return `No tool call found for function call output with call_id ${JSON.stringify(alone)}.`;
  if (results.length < calls.size) return "No tool output found for a function call";
  const named = listOf(fields["tools"]).flatMap((tool) =>
    tool["type"] === "namespace" ? listOf(tool["tools"]) : [tool],
  );
  return findToolNames(named, toolName);
}

function findInGemini(fields: Fields): string | undefined {
  const contents = listOf(fields["contents"]);
  if (contents.some(({ parts }) => listOf(parts).length === 0)) return "contents.parts must not be empty";
  const declared = listOf(fields["tools"]).flatMap((tool) => listOf(tool["functionDeclarations"]));
  const counts = contents.map(({ parts }) => ({
    calls: listOf(parts).filter((part) => "functionCall" in part).length,
    results: listOf(parts).filter((part) => "functionResponse" in part).length,
  }));
  const isUneven = counts.some(({ calls }, at) => calls > 0 && counts[at + 1]?.results !== calls);
  if (isUneven) return "the number of function response parts must equal that of the function call parts";
  return findToolNames(declared, /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/);
}

/** What of a request the real provider would refuse, beside what every fake provider refuses. */
export function findViolation({ dialect, fields }: FakeRequest): string | undefined {
  switch (dialect) {
    case "chat":
      return findInChat(fields);
    case "messages":
      return findInMessages(fields);
    case "responses":
      return findInResponses(fields);
    case "gemini":
      return findInGemini(fields);
    default:
      return undefined;
  }
}
