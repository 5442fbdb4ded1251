import { formatOf, isStreamed, type ProviderFormat } from "./reading.ts";
import type { Exchange } from "./recordings.ts";
import { type ClientFormat, clientFormats, endpoints, inTurns, modelOf, providerFormats } from "./replay.ts";
import type { ReplayUpstream } from "./replay-upstream.ts";

type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Every string in a value, with the names of the fields that lead to it. */
function leavesOf(value: unknown, path: string[] = []): { path: string[]; text: string }[] {
  if (typeof value === "string") return [{ path, text: value }];
  if (Array.isArray(value)) return value.flatMap((item) => leavesOf(item, path));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, [...path, name]));
}

const saying = new Set(["text", "content", "output", "instructions", "system", "input", "data", "url"]);
const naming = new Set(["name", "description"]);

/** What a call was made with: texts within JSON, or what a model wrote that is none. */
function argumentsOf(text: string): string[] {
  try {
    return leavesOf(JSON.parse(text)).map((leaf) => leaf.text);
  } catch {
    return [text];
  }
}

/** What a provider must be told of a request: all that is said and shown, tools by name, what calls were made with. */
function mustArrive(body: Fields): string[] {
  const leaves = leavesOf(body).flatMap(({ path, text }) => {
    const name = path.at(-1) ?? "";
    // Thoughts are for the provider that had them.
    if (path.includes("summary")) return [];
    if (path[0] === "tools") return naming.has(name) ? [text] : [];
    if (name === "arguments") return argumentsOf(text);
    const isArgument = path[0] === "messages" && path.includes("input");
    return isArgument || (saying.has(name) && path[0] !== "text") ? [text] : [];
  });
  return leaves.map((text) => text.replace(/^data:[^,]*,/, "").trim());
}

// Calls of tools that run at the provider, in the history of a conversation.
const ownCall = /^server_tool_use$|(?<!^function|^custom_tool)_call$/;

/** Whether a request uses what only its own provider has: tools that run there. */
function isOwn({ tools, ...body }: Fields): boolean {
  const types = Array.isArray(tools) ? tools.map((tool) => (isObject(tool) ? tool["type"] : "")) : [];
  const hasOwnTools = types.some((type) => type !== undefined && type !== "function" && type !== "custom");
  return hasOwnTools || leavesOf(body).some(({ path, text }) => path.at(-1) === "type" && ownCall.test(text));
}

const searching = /"(?:web_search(?:_\w+)?|googleSearch)"/;

type Task = { exchange: Exchange; client: ClientFormat; provider: ProviderFormat; number: number };
type Relay = { url: string; secret: string; upstream: ReplayUpstream };

/** What went wrong with one request on its way to a provider of another format; "" when nothing did. */
async function sendOne({ url, secret, upstream }: Relay, task: Task): Promise<string> {
  const { exchange, client, provider, number } = task;
  const body = JSON.parse(exchange.requestBody) as Fields;
  const headers = { "x-api-key": secret, "anthropic-version": "2023-06-01" };
  const response = await fetch(`${url}${endpoints[client]}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${secret}`, ...headers },
    body: JSON.stringify({ ...body, model: modelOf(number) }),
  });
  const answer = await response.text();
  const where = `${client} to ${provider}, ${exchange.name}`;
  const isNamed = /(^| )tools\./.test(response.headers.get("x-relay-dropped") ?? "");
  const received = upstream.received.get(String(response.headers.get("x-request-id"))) ?? "null";
  // A web search is another provider's web search.
  const isKept = response.status === 400 || isNamed || searching.test(received);
  if (isOwn(body)) return isKept ? "" : `${where}: its tools are dropped without a word`;
  if (response.status !== 200) return `${where}: ${response.status} ${answer.slice(0, 200)}`;
  const told = JSON.parse(received) as unknown;
  const all = leavesOf(told)
    .map(({ text }) => text)
    .join("\n");
  const lost = mustArrive(body).filter((text) => !all.includes(text));
  return lost.length === 0 ? "" : `${where}: lost ${JSON.stringify(lost.map((text) => text.slice(0, 80)))}`;
}

/**
 * Sends every recorded request, as it is, to a provider of each other format, which answers with the first recording in
 * the same mode. Gives the number of calls, and what went wrong.
 */
export async function sendRecorded(
  relay: Relay,
  exchanges: Exchange[],
): Promise<{ calls: number; problems: string[] }> {
  const tasks = exchanges.flatMap((exchange): Task[] => {
    const client = clientFormats.find((format) => format === formatOf(exchange));
    if (client === undefined) return [];
    return providerFormats.flatMap((provider) => {
      const isLike = (other: Exchange): boolean =>
        formatOf(other) === provider && isStreamed(other) === isStreamed(exchange);
      const number = exchanges.findIndex(isLike);
      return provider === client || number < 0 ? [] : [{ exchange, client, provider, number }];
    });
  });
  const outcomes = await inTurns(tasks, (task) => sendOne(relay, task));
  return { calls: tasks.length, problems: outcomes.filter((problem) => problem !== "") };
}
