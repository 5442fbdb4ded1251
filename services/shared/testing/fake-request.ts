/** Wire formats that the fake upstream speaks. */
export type FakeDialect = "chat" | "messages";

/** What the fake needs to know of a request. */
export type FakeRequest = {
  dialect: FakeDialect;
  model: string;
  isStream: boolean;
  /** Chat: whether the usage chunk was asked for. Messages always tells its usage. */
  includesUsage: boolean;
  choices: number;
  /** Most output tokens that the request allows. */
  outputCap: number;
  /** Words of all texts in the prompt. */
  promptTokens: number;
  lastUserText: string;
};

/** Why a provider would refuse a request without running a model. */
export type Refusal = { status: number; message: string; param?: string; code?: string };

export type Headers = NodeJS.Dict<string | string[]>;

type Json = Record<string, unknown>;

/** Parses a body; undefined when it is not a JSON object. */
export function parseBody(rawBody: Buffer): Json | undefined {
  try {
    const body: unknown = JSON.parse(rawBody.toString("utf8"));
    return isObject(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Refuses what the real provider refuses: no key, no version, no JSON, a required field missing or misplaced. */
export function findRefusal(dialect: FakeDialect, headers: Headers, body: Json | undefined): Refusal | undefined {
  const bearer = /^Bearer \S/.test(String(headers["authorization"]));
  if (!bearer && !(dialect === "messages" && headers["x-api-key"])) {
    return { status: 401, message: "You did not provide an API key." };
  }
  if (dialect === "messages" && !headers["anthropic-version"]) {
    return { status: 400, message: "anthropic-version: header is required" };
  }
  if (!body) return { status: 400, message: "The request body is not valid JSON" };
  return dialect === "messages" ? findMessagesRefusal(body) : findChatRefusal(body);
}

function findMessagesRefusal(body: Json): Refusal | undefined {
  const missing = ["model", "messages", "max_tokens"].find((field) => body[field] === undefined);
  return missing ? { status: 400, message: `${missing}: Field required` } : undefined;
}

function findChatRefusal(body: Json): Refusal | undefined {
  const missing = ["model", "messages"].find((field) => body[field] === undefined);
  if (missing) {
    const message = `Missing required parameter: '${missing}'.`;
    return { status: 400, message, param: missing, code: "missing_required_parameter" };
  }
  if (body["stream_options"] && body["stream"] !== true) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    return { status: 400, message, param: "stream_options" };
  }
  return undefined;
}

/** Reads what matters from a body that was not refused. */
export function readRequest(dialect: FakeDialect, body: Json): FakeRequest {
  const messages = Array.isArray(body["messages"]) ? body["messages"].filter(isObject) : [];
  const lastUser = messages.findLast((message) => message["role"] === "user");
  const streamOptions = isObject(body["stream_options"]) ? body["stream_options"] : {};
  const texts = [textOf(body["system"]), ...messages.map((message) => textOf(message["content"]))];
  return {
    dialect,
    model: String(body["model"]),
    isStream: body["stream"] === true,
    includesUsage: streamOptions["include_usage"] === true,
    choices: dialect === "chat" ? (integer(body["n"]) ?? 1) : 1,
    outputCap: integer(body["max_completion_tokens"]) ?? integer(body["max_tokens"]) ?? Number.POSITIVE_INFINITY,
    promptTokens: texts.reduce((sum, text) => sum + countWords(text), 0),
    lastUserText: lastUser ? textOf(lastUser["content"]) : "",
  };
}

/** Tokens of a text by the fake's rule: its words. */
export function countWords(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}

// Content is a string or a list of parts; only parts with a text count.
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .filter((text) => text !== "")
    .join("\n");
}

function integer(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) ? value : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
