import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { weather, weatherSchema } from "./clients-cases.ts";
import { chat, type Json, messages, type Side } from "./ask.ts";
import { modelOn, testCatalog, upstreamAt } from "./catalog.ts";
import { sideOf } from "./endpoints.ts";

/** Formats that callers speak. */
export const clientNames = ["chat", "responses", "messages"] as const;
export type ClientName = (typeof clientNames)[number];

/** Formats that upstreams speak. */
export const providerNames = ["chat", "responses", "messages", "gemini"] as const;
export type ProviderName = (typeof providerNames)[number];

/** Every cell of the matrix. */
export const cells = clientNames.flatMap((client) => providerNames.map((provider) => ({ client, provider })));

/** The cells in which something is converted. */
export const convertedCells = cells.filter(({ client, provider }) => client !== provider);

const dialects = {
  chat: "openai-chat",
  responses: "openai-responses",
  messages: "anthropic-messages",
  gemini: "gemini-generate",
} as const;

/** The model that runs on an upstream which speaks only one format. */
export const modelOf = (provider: ProviderName): string => `${provider}-model`;

/** Chat as most servers speak it, without tools of free text. */
export const plainChatModel = "plain-chat-model";

/**
 * The test catalog and a model for each provider format; `hasty-…-model` is the same over connections that lose
 * patience within a second. Gemini's is one that insists on its signatures.
 */
export function conversionCatalog(fakeUrl: string): string {
  const upstreams: Record<string, object> = {};
  const models: Record<string, object> = {};
  for (const provider of providerNames) {
    const settings = provider === "gemini" ? { model: "gemini-3-fake" } : {};
    const patience = { first_byte_timeout_ms: 700, idle_timeout_ms: 700 };
    upstreams[provider] = upstreamAt(fakeUrl, { dialects: [dialects[provider]] });
    upstreams[`hasty-${provider}`] = upstreamAt(fakeUrl, { dialects: [dialects[provider]], ...patience });
    models[modelOf(provider)] = modelOn(provider, { upstreams: [{ name: provider, ...settings }] });
    const hasty = [{ name: `hasty-${provider}`, ...settings }];
    models[`hasty-${modelOf(provider)}`] = modelOn(provider, { upstreams: hasty });
  }
  models[plainChatModel] = modelOn("chat", { quirks: ["no-custom-tools"] });
  return testCatalog(fakeUrl, { upstreams, models });
}

/** A call that the model asked for. */
export type ParsedCall = { id: string; name: string; input: string };

/** An answer as the official client of a format gave it. */
export type ParsedAnswer = {
  text: string;
  thinking: string;
  calls: ParsedCall[];
  /** In the format's own words. */
  finish: string;
  usage: Json;
  /** What goes back as history, as it came. */
  said: Json[];
  headers: Headers;
  rid: string;
};

export type CallOptions = { model: string; history: Json[]; isStream: boolean; hasTools?: boolean; more?: Json };

/** A caller with the official client of a format. */
export type Caller = {
  side: Side;
  /** Name of the field in which the conversation stands. */
  historyField: "messages" | "input";
  ask: (relayUrl: string, secret: string, asking: CallOptions) => Promise<ParsedAnswer>;
  question: (content: string | Json[]) => Json;
  /** What tools gave back, and what the user says behind it. */
  results: (given: { call: ParsedCall; result: string }[], content: string) => Json[];
  picture: (base64: string) => Json;
};

/** Tools that the fake upstream can be told to call. */
export const tools = [weather, { name: "now", arguments: {} }];

const toolSchemas = [
  { name: weather.name, description: "Weather of a city.", schema: weatherSchema },
  { name: "now", description: "The time.", schema: { type: "object", properties: {} } },
];

const read = ({ headers }: Response): Pick<ParsedAnswer, "headers" | "rid"> => ({
  headers,
  rid: headers.get("x-request-id") ?? "",
});

const openai = (relayUrl: string, secret: string): OpenAI =>
  new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: secret, maxRetries: 0 });

type Delta = Json & { tool_calls?: (Json & { index: number; function?: { arguments?: string } })[] | null };

/** Adds up the deltas of a chat stream, fields that the client does not know among them. */
function addDelta(message: Json, { tool_calls: calls, ...fields }: Delta): void {
  for (const [name, value] of Object.entries(fields)) {
    const known = message[name];
    message[name] = typeof known === "string" && typeof value === "string" ? known + value : (value ?? known ?? null);
  }
  for (const { index, function: called, ...call } of calls ?? []) {
    const known = ((message["tool_calls"] ??= []) as Json[])[index] as { function: { arguments: string } } | undefined;
    if (!known) (message["tool_calls"] as Json[])[index] = { ...call, function: called };
    else {
      known.function.arguments += called?.arguments ?? "";
      Object.assign(known, call);
    }
  }
}

type ChatAnswer = { message: Json; finish: string; usage: unknown };

async function gatherChat(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<ChatAnswer> {
  const answer: ChatAnswer = { message: {}, finish: "", usage: undefined };
  for await (const { choices, usage } of chunks) {
    const [choice] = choices;
    if (choice) addDelta(answer.message, choice.delta as unknown as Delta);
    answer.finish ||= choice?.finish_reason ?? "";
    answer.usage ??= usage;
  }
  return answer;
}

function wholeChat({ choices: [choice], usage }: OpenAI.ChatCompletion): ChatAnswer {
  return { message: choice?.message as unknown as Json, finish: choice?.finish_reason ?? "", usage };
}

type ChatMessage = {
  content?: string | null;
  reasoning_content?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[] | null;
};

async function askChat(relayUrl: string, secret: string, asking: CallOptions): Promise<ParsedAnswer> {
  const { model, history, isStream, hasTools, more } = asking;
  const functions = toolSchemas.map(({ schema, ...tool }) => ({ ...tool, parameters: schema }));
  const body = {
    model,
    messages: history,
    ...(hasTools && { tools: functions.map((tool) => ({ type: "function", function: tool })) }),
    ...more,
  } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
  const { completions } = openai(relayUrl, secret).chat;
  const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } };
  const answer = isStream
    ? await completions.create(streamed).withResponse()
    : await completions.create(body).withResponse();
  const { message, finish, usage } = "choices" in answer.data ? wholeChat(answer.data) : await gatherChat(answer.data);
  const { content, reasoning_content: thinking, tool_calls: calls } = message as ChatMessage;
  return {
    text: content ?? "",
    thinking: thinking ?? "",
    calls: (calls ?? []).map(({ id, function: { name, arguments: input } }) => ({ id, name, input })),
    finish,
    usage: usage as Json,
    said: [message],
    ...read(answer.response),
  };
}

async function askResponses(relayUrl: string, secret: string, asking: CallOptions): Promise<ParsedAnswer> {
  const { model, history, isStream, hasTools, more } = asking;
  const functions = toolSchemas.map(({ schema, ...tool }) => ({ type: "function", ...tool, parameters: schema }));
  const asked = { model, input: history, include: ["reasoning.encrypted_content"], store: false };
  const body = { ...asked, ...(hasTools && { tools: functions.map((tool) => ({ ...tool, strict: false })) }), ...more };
  const { responses } = openai(relayUrl, secret);
  const params = body as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming;
  let whole: OpenAI.Responses.Response | undefined;
  let response: Response;
  if (isStream) {
    const answer = await responses.create({ ...params, stream: true }).withResponse();
    response = answer.response;
    for await (const event of answer.data) {
      if (event.type === "response.completed" || event.type === "response.incomplete") whole = event.response;
    }
  } else ({ data: whole, response } = await responses.create(params).withResponse());
  const output = (whole?.output ?? []) as unknown as Json[];
  const textsOf = (type: string, field: string): string =>
    output
      .filter((item) => item["type"] === type)
      .flatMap((item) => (item[field] as { text?: string }[]).map(({ text = "" }) => text))
      .join("");
  return {
    text: textsOf("message", "content"),
    thinking: textsOf("reasoning", "summary"),
    calls: output
      .filter(({ type }) => type === "function_call")
      .map(({ call_id: id, name, arguments: input }) => ({ id, name, input }) as ParsedCall),
    finish: whole?.incomplete_details?.reason ?? whole?.status ?? "",
    usage: whole?.usage as unknown as Json,
    said: output,
    ...read(response),
  };
}

async function askMessages(relayUrl: string, secret: string, asking: CallOptions): Promise<ParsedAnswer> {
  const { model, history, isStream, hasTools, more } = asking;
  const { system: instructions, ...rest } = (more ?? {}) as Json;
  const asked = {
    model,
    max_tokens: 1_000,
    messages: history,
    ...(instructions !== undefined && { system: instructions }),
  };
  const named = toolSchemas.map(({ schema, ...tool }) => ({ ...tool, input_schema: schema }));
  const body = { ...asked, ...(hasTools && { tools: named }), ...rest };
  const params = body as unknown as Anthropic.MessageCreateParamsNonStreaming;
  const { messages: endpoint } = new Anthropic({ baseURL: relayUrl, apiKey: secret, maxRetries: 0 });
  let message: Anthropic.Message;
  let response: Response;
  if (isStream) {
    const stream = endpoint.stream(params);
    ({ response } = await stream.withResponse());
    message = await stream.finalMessage();
  } else ({ data: message, response } = await endpoint.create(params).withResponse());
  const content = message.content as unknown as Json[];
  const textsOf = (name: string): string =>
    content.map((block) => (block["type"] === name ? String(block[name]) : "")).join("");
  return {
    text: textsOf("text"),
    thinking: textsOf("thinking"),
    calls: content
      .filter(({ type }) => type === "tool_use")
      .map(({ id, name, input }) => ({ id: String(id), name: String(name), input: JSON.stringify(input) })),
    finish: message.stop_reason ?? "",
    usage: message.usage as unknown as Json,
    said: [{ role: "assistant", content }],
    ...read(response),
  };
}

const user = (content: string | Json[]): Json => ({ role: "user", content });

export const callers: Record<ClientName, Caller> = {
  chat: {
    side: chat,
    historyField: "messages",
    ask: askChat,
    question: user,
    results: (given, content) => [
      ...given.map(({ call, result }) => ({ role: "tool", tool_call_id: call.id, content: result })),
      user(content),
    ],
    picture: (base64) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } }),
  },
  responses: {
    side: sideOf("/v1/responses"),
    historyField: "input",
    ask: askResponses,
    question: user,
    results: (given, content) => [
      ...given.map(({ call, result }) => ({ type: "function_call_output", call_id: call.id, output: result })),
      user(content),
    ],
    picture: (base64) => ({ type: "input_image", image_url: `data:image/png;base64,${base64}` }),
  },
  messages: {
    side: messages,
    historyField: "messages",
    ask: askMessages,
    question: user,
    results: (given, content) => [
      user([
        ...given.map(({ call, result }) => ({ type: "tool_result", tool_use_id: call.id, content: result })),
        { type: "text", text: content },
      ]),
    ],
    picture: (base64) => ({ type: "image", source: { type: "base64", media_type: "image/png", data: base64 } }),
  },
};

/** A text as a part of the user's content. */
export function textPart(client: ClientName, text: string): Json {
  return { type: client === "responses" ? "input_text" : "text", text };
}
