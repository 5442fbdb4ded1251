import { type FakeDialect, type Fields, isObject } from "./dialect.ts";
import { countWords, readPrompt } from "./prompt.ts";

/** What the fake needs to know of a request. */
export type FakeRequest = {
  dialect: FakeDialect;
  model: string;
  isStream: boolean;
  /** Chat and completions: whether the usage chunk was asked for. The others always tell their usage. */
  includesUsage: boolean;
  choices: number;
  /** Most output tokens that the request allows. */
  outputCap: number;
  /** Words of all texts in the prompt, and its tokens where it comes as tokens. */
  promptTokens: number;
  lastUserText: string;
  fields: Fields;
};

/** Why a provider would refuse a request without running a model. */
export type Refusal = { status: number; message: string; param?: string; code?: string };

export type Headers = NodeJS.Dict<string | string[]>;

const requiredFields: Record<FakeDialect, string[]> = {
  chat: ["model", "messages"],
  messages: ["model", "messages", "max_tokens"],
  responses: ["model"],
  compact: ["model"],
  embeddings: ["model", "input"],
  completions: ["model", "prompt"],
  images: ["prompt"],
  edits: ["prompt"],
  speech: ["model", "input", "voice"],
  moderations: ["input"],
  transcriptions: ["model", "file"],
  translations: ["model", "file"],
  gemini: ["contents"],
};

/** Reads a body; undefined when it is neither a JSON object nor, where that is due, a form. */
export async function parseBody(rawBody: Buffer, contentType: string | undefined): Promise<Fields | undefined> {
  try {
    if (contentType?.startsWith("multipart/form-data")) return await parseForm(rawBody, contentType);
    const body: unknown = JSON.parse(rawBody.toString("utf8"));
    return isObject(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

async function parseForm(rawBody: Buffer, contentType: string): Promise<Fields> {
  const form = await new Response(new Uint8Array(rawBody), { headers: { "content-type": contentType } }).formData();
  const fields: Fields = {};
  for (const [name, value] of form) {
    if (typeof value === "string") fields[name] = value;
    else fields[name] = { name: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) };
  }
  return fields;
}

/** Refuses what the real provider refuses: no key, no version, no JSON, a required field missing or misplaced. */
export function findRefusal(dialect: FakeDialect, headers: Headers, body: Fields | undefined): Refusal | undefined {
  const bearer = /^Bearer \S/.test(String(headers["authorization"]));
  if (!bearer && !(dialect === "messages" && headers["x-api-key"])) {
    return { status: 401, message: "You did not provide an API key." };
  }
  if (dialect === "messages" && !headers["anthropic-version"]) {
    return { status: 400, message: "anthropic-version: header is required" };
  }
  if (!body) return { status: 400, message: "The request body is not valid JSON" };
  const missing = requiredFields[dialect].find((field) => body[field] === undefined);
  if (missing && dialect === "messages") return { status: 400, message: `${missing}: Field required` };
  if (missing) {
    const message = `Missing required parameter: '${missing}'.`;
    return { status: 400, message, param: missing, code: "missing_required_parameter" };
  }
  const pictures = ["image", "image[]", "images"];
  if (dialect === "edits" && !pictures.some((name) => body[name] !== undefined)) {
    return { status: 400, message: "Missing required parameter: 'image'.", param: "image" };
  }
  return findMisplacedField(dialect, body);
}

function findMisplacedField(dialect: FakeDialect, body: Fields): Refusal | undefined {
  const countsStreams = dialect === "chat" || dialect === "completions";
  if (countsStreams && body["stream_options"] && body["stream"] !== true) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    return { status: 400, message, param: "stream_options" };
  }
  if (dialect === "images" && String(body["model"]).startsWith("gpt-image") && body["response_format"] !== undefined) {
    const message = "Unknown parameter: 'response_format'.";
    return { status: 400, message, param: "response_format", code: "unknown_parameter" };
  }
  return undefined;
}

/** Reads what matters from a body that was not refused. */
export function readRequest(dialect: FakeDialect, body: Fields): FakeRequest {
  const streamOptions = isObject(body["stream_options"]) ? body["stream_options"] : {};
  const { texts, tokenLists, lastUserText } = readPrompt(dialect, body);
  const cap = ["max_completion_tokens", "max_output_tokens", "max_tokens"].find((field) => integer(body[field]));
  const prompts = dialect === "completions" ? Math.max(texts.length + tokenLists.length, 1) : 1;
  const words = texts.reduce((sum, text) => sum + countWords(text), 0);
  return {
    dialect,
    model: String(body["model"]),
    // All values of a form are texts.
    isStream: body["stream"] === true || (hasForms(dialect) && body["stream"] === "true"),
    includesUsage: streamOptions["include_usage"] === true,
    choices: prompts * (hasChoices(dialect) ? (integer(hasForms(dialect) ? Number(body["n"]) : body["n"]) ?? 1) : 1),
    outputCap: cap === undefined ? Number.POSITIVE_INFINITY : Number(body[cap]),
    promptTokens: words + tokenLists.reduce((sum, tokens) => sum + tokens.length, 0),
    lastUserText,
    fields: body,
  };
}

function hasChoices(dialect: FakeDialect): boolean {
  return dialect === "chat" || dialect === "completions" || dialect === "images" || dialect === "edits";
}

function hasForms(dialect: FakeDialect): boolean {
  return dialect === "transcriptions" || dialect === "edits";
}

function integer(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) ? value : undefined;
}
