/** A piece of a call of a tool; the pieces of one have its index. */
export type CallPiece = { index: number; name: string; arguments: string };

/** What one event of a chat completion says; empty where it says nothing of the kind. */
export type ChatEvent = { said: string; calls: readonly CallPiece[]; finish: string; problem?: string };

const maxLineCharacters = 1_048_576;

/**
 * Reads the server-sent events of a chat completion up to `[DONE]`. Each event is one line of data there. What is not
 * understood is left out; a line beyond 1,048,576 characters throws.
 */
export async function* readChatStream(body: AsyncIterable<Buffer>): AsyncGenerator<ChatEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLineCharacters) throw new RangeError("a line of the stream is too long");
    for (const line of lines) {
      const data = /^data: ?(.*?)\r?$/.exec(line)?.[1];
      if (data === "[DONE]") return;
      if (data !== undefined) yield readEvent(data);
    }
  }
}

function readEvent(data: string): ChatEvent {
  const problem = readError(data);
  if (problem !== undefined) return { said: "", calls: [], finish: "", problem };
  const choice = field(field(read(data), "choices"), 0);
  const delta = field(choice, "delta");
  return {
    said: textOf(field(delta, "content")),
    calls: readCalls(field(delta, "tool_calls")),
    finish: textOf(field(choice, "finish_reason")),
  };
}

function readCalls(calls: unknown): CallPiece[] {
  if (!Array.isArray(calls)) return [];
  return calls.map((call: unknown) => {
    const [index, called] = [field(call, "index"), field(call, "function")];
    const name = textOf(field(called, "name"));
    return { index: typeof index === "number" ? index : 0, name, arguments: textOf(field(called, "arguments")) };
  });
}

/** The message of an error body, at most 1,000 characters; undefined when it is none. */
export function readError(text: string): string | undefined {
  const message = field(field(read(text), "error"), "message");
  return typeof message === "string" ? message.slice(0, 1_000) : undefined;
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const field = (value: unknown, name: string | number): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
